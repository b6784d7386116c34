"""What the figures on saturation show is what they were given."""

import numpy as np
from numpy.testing import assert_allclose

from milb.plots import saturation as figures

RANDOM = np.random.default_rng(0)


def test_two_members():
    distance = np.linspace(0, 12, 30)
    log_gap = -(distance**2) / 4
    rounding = RANDOM.normal(scale=1e-6, size=30)
    fig = figures.two_members(distance, 0.5 - np.exp(log_gap), 0.6 - np.exp(log_gap), 0.5, rounding, log_gap)
    value, close_up, ranking = fig.axes
    assert_allclose(value.lines[0].get_ydata(), 0.5)
    assert_allclose(value.lines[2].get_ydata(), 0.5 - np.exp(log_gap))
    assert_allclose(close_up.lines[1].get_ydata(), 1e6 * rounding)
    low, high = close_up.get_ylim()
    assert low < 1e6 * rounding[20:].min() and 1e6 * rounding[20:].max() < high
    assert_allclose(ranking.lines[0].get_ydata(), -log_gap)
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in fig.axes)


def test_ranking_of_a_pool():
    log_gap, rounded = -np.arange(30.0), 1e-6 * RANDOM.normal(size=30)
    fig = figures.ranking_of_a_pool(log_gap, rounded, {"mi-lb": np.array([29, 28]), "mi-lb-released": np.array([3])})
    whole, near = fig.axes
    for ax, unit in ((whole, 1), (near, 1e6)):
        every, exact, released = (scatter.get_offsets() for scatter in ax.collections)
        assert_allclose(every, np.stack([-log_gap, unit * rounded], 1))
        assert_allclose(exact, every[[29, 28]])
        assert_allclose(released, every[[3]])
        assert ax.get_xlabel() and "nats" in ax.get_ylabel()
    assert near.get_ylim() == (-40, 40)
    assert [text.get_text() for text in whole.get_legend().get_texts()] == ["picked: MI-LB", "picked: MI-LB, released"]
