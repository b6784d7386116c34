"""Few ticks, and every one of them labelled, whatever the scale."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from milb.plots import layout


def ticks_of(scale, low, high):
    """Values and labels of the ticks on an axis from low to high, once few_ticks has seen it."""
    fig, ax = plt.subplots()
    ax.set_yscale(scale)
    ax.set_ylim(low, high)
    layout.few_ticks(ax)
    fig.canvas.draw()
    shown = [tick for tick in ax.yaxis.get_major_ticks() if min(low, high) <= tick.get_loc() <= max(low, high)]
    plt.close(fig)
    return [tick.get_loc() for tick in shown], [tick.label1.get_text() for tick in shown]


@pytest.mark.parametrize(
    ("scale", "low", "high"),
    [
        ("linear", 0, 1),
        ("linear", 5, -3),
        ("linear", 1e-9, 2e-9),
        ("log", 1, 1e4),
        ("log", 20, 60),
        ("log", 3, 50),
        ("log", 1, 10),
        ("log", 1, 9.9),
        ("log", 12345.6, 12345.7),
        ("linear", 12345.6, 12345.7),
    ],
)
def test_two_to_six_ticks_all_labelled(scale, low, high):
    values, labels = ticks_of(scale, low, high)
    assert 2 <= len(values) <= 6 and all(labels) and len(set(labels)) == len(labels)


def test_other_scales_and_ticks_by_hand_stay():
    ax = Figure().subplots()
    ax.set_yscale("log", base=2)
    before = ax.yaxis.get_major_locator()
    layout.few_ticks(ax)
    assert ax.yaxis.get_major_locator() is before
    values, _ = ticks_of("symlog", -1e3, 1e3)
    assert np.min(np.abs(values)) < 10 < np.max(np.abs(values))
    ax = Figure().subplots()
    ax.set(xticks=[], yticks=[1, 2, 3, 4, 5, 6, 7, 8])
    layout.few_ticks(ax)
    assert len(ax.get_xticks()) == 0 and len(ax.get_yticks()) == 8
