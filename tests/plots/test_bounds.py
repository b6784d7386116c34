"""What the figures on bounds show is what they were given."""

import numpy as np
import pandas as pd
from numpy.testing import assert_allclose

from milb.plots import bounds as figures

RANDOM = np.random.default_rng(0)
SEPARATION = np.linspace(0, 5, 11)
TRUTH = np.tanh(SEPARATION)
VALUES = {"mi-lb": TRUTH - 1, "certificate": TRUTH - 0.1}


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_explorer():
    y = np.linspace(-3, 3, 20)
    fig = figures.explorer(y, RANDOM.uniform(size=(3, 20)), SEPARATION, TRUTH, VALUES, chosen=4, most=1.1)
    left, right = fig.axes
    assert len(left.lines) == 3 and left.get_title(loc="left") == "3 members"
    assert_allclose(right.lines[0].get_ydata(), TRUTH)
    assert_allclose(right.lines[1].get_ydata(), TRUTH - 1)
    assert_allclose(right.lines[-1].get_xdata(), 2.0)
    assert labels(right) == ["mutual information", "MI-LB", "certificate"]
    assert f"{TRUTH[4]:.2f} nats" in right.get_title(loc="left")


def test_by_dimension():
    fig = figures.by_dimension(SEPARATION, {1: (TRUTH, VALUES), 20: (0.5 * TRUTH, VALUES)})
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["D = 1", "D = 20"]
    assert_allclose(fig.axes[1].lines[0].get_ydata(), 0.5 * TRUTH)


def test_tightness():
    gaps = pd.DataFrame({1: [-0.2, 0.1], 16: [-2.5, 0.3]}, index=["MI-LB", "upper bound"])
    (ax,) = figures.tightness(gaps, "nats").axes
    assert_allclose(ax.lines[0].get_ydata(), [0.2, 2.5])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "16"] and ax.get_yscale() == "log"


def test_against_truth():
    fig = figures.against_truth(TRUTH, VALUES)
    for ax, value in zip(fig.axes, VALUES.values(), strict=True):
        assert_allclose(ax.collections[0].get_offsets(), np.stack([TRUTH, value], axis=1))
        assert_allclose(ax.lines[0].get_xdata(), ax.lines[0].get_ydata())


def test_agreement():
    table = pd.DataFrame({"ternary": [0.9, 0.5], "double-well": [0.1, 0.2]}, index=["mi-lb", "mi-pairwise"])
    (ax,) = figures.agreement(table).axes
    assert_allclose(ax.lines[1].get_xdata(), [0.1, 0.2])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["MI-LB", "MI, pairwise"]


def test_receiver_operating():
    curve = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.9, 1.0])
    fig = figures.receiver_operating({"ternary": {"mi-lb": curve}, "double-well": {"mi-lb": curve}})
    assert_allclose(fig.axes[1].lines[1].get_data(), curve)
    assert [text.get_text() for text in fig.legends[0].get_texts()] == ["MI-LB"]


def test_asymptotics():
    table = pd.DataFrame(
        {"model": ["a", "a", "b", "b"], "n": [10, 100] * 2, "information": [1.0, 0.1, 1.0, 0.5],
         "aleatoric": [0.0, 0.4, 0.0, 0.8], "total": [1.0, 0.5, 1.0, 1.3]}
    )  # fmt: skip
    fig = figures.asymptotics(table, entropy=0.45)
    assert_allclose(fig.axes[0].lines[1].get_ydata(), [1.0, 0.5])
    assert_allclose(fig.axes[2].lines[-1].get_ydata(), 0.45)


def test_divergence_limit():
    (ax,) = figures.divergence_limit(np.array([0.1, 0.2]), np.array([0.3, 0.8])).axes
    assert_allclose(ax.collections[0].get_offsets(), [[0.3, 0.1], [0.8, 0.2]])


def test_search():
    ratios = pd.DataFrame({"ternary": [0.95, 1.1], "double_well": [0.8, 3.2]}, index=["best", "random"])
    (ax,) = figures.search(ratios).axes
    assert_allclose(ax.lines[0].get_xdata(), [0.95, 1.1])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["best", "random"]
    assert labels(ax) == ["ternary", "double_well"]
