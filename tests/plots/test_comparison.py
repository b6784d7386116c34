"""Strategies side by side, and the grid of panels that such figures share."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.lines import Line2D
from numpy.testing import assert_allclose

from milb import strategy
from milb.plots import comparison, layout, strategy_style

N = [100, 150, 200]


@pytest.fixture
def table():
    runs = [
        pd.DataFrame({"strategy": name, "seed": seed, "n": N, "nll_mean": np.array([900.0, 300, last]) + seed})
        for name, last in (("random", 200.0), ("mi-lb", 50.0), ("mine", 9.0))
        for seed in (0, 2)
    ]
    return pd.concat(runs, ignore_index=True)


def test_one_that_ends_before_the_others_says_where(table):
    behind = table["strategy"].eq("mine") & table["n"].eq(N[-1])
    titles = [ax.get_title(loc="left") for ax in comparison.each_against_others(table[~behind]).axes]
    assert titles == ["Random\nends at 201.0", "MI-LB\nends at 51.0", f"mine\n301.0 at n = {N[1]}"]


def test_each_strategy_stands_before_random_and_the_others(table):
    fig = comparison.each_against_others(table, oracle=4.0)
    panels = fig.axes
    titles = [ax.get_title(loc="left") for ax in panels]
    assert titles == ["Random\nends at 201.0", "MI-LB\nends at 51.0", "mine\nends at 10.0"]
    *others, random, seed_0, seed_2, mean, oracle = panels[1].lines
    assert_allclose([line.get_ydata()[-1] for line in others], [201, 51, 10])
    assert_allclose([line.get_ydata()[-1] for line in (random, seed_0, seed_2, mean)], [201, 50, 52, 51])
    assert_allclose(oracle.get_ydata(), 4)
    assert mean.get_color() == strategy_style("mi-lb")["color"]
    assert panels[0].get_yscale() == "log"
    assert (fig.get_supxlabel(), "nats" in fig.get_supylabel()) == ("labels n", True)
    assert [text.get_text() for text in fig.legends[0].get_texts()][-1] == "oracle"


def test_values_that_are_not_positive_are_shown(table):
    fig = comparison.each_against_others(table.assign(nll_mean=table["nll_mean"] - 100))
    assert fig.axes[0].get_yscale() == "symlog"


def test_share_of_picks():
    fig = comparison.share_of_picks({"random": 0.4, "mi-lb": 0.1}, 100, 0.5, "in the band")
    (ax,) = fig.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Random", "MI-LB"]
    assert_allclose([line.get_xdata()[-1] for line in ax.lines], [50, 40, 40, 10, 10])
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert_allclose([band.x0, band.x1], [40, 60])  # 2 sqrt(0.5 0.5 / 100) = 0.1
    assert ax.get_xlabel() == "share of the picks in the band (%)"


@pytest.mark.parametrize(("n", "shape"), [(1, (1, 1)), (5, (1, 5)), (9, (2, 5)), (10, (2, 5)), (11, (3, 5))])
def test_panels_fill_rows_and_the_legend_an_empty_place(n, shape):
    fig, axes = layout.panels(n)
    assert len(axes) == n and axes[0].get_gridspec().get_geometry() == shape
    for ax in axes:
        ax.plot([0, 1])
    layout.label_edge(fig, "x", "y")
    ticks_below = [ax.xaxis.get_tick_params()["labelbottom"] for ax in axes]
    assert ticks_below == [i + 5 >= n for i in range(n)]
    layout.legend(fig, {"line": Line2D([], [])})
    assert bool(fig.legends) == (n == shape[0] * shape[1])
    plt.close(fig)


def test_every_strategy_can_be_drawn(table):
    many = pd.concat([table[table["strategy"] == "random"].assign(strategy=name) for name in strategy.STRATEGIES])
    fig = comparison.each_against_others(many)
    assert len([ax for ax in fig.axes if ax.axison]) == len(strategy.STRATEGIES)


def test_thinned_keeps_the_ends_and_the_order():
    points = np.arange(20_000.0).reshape(-1, 2)
    kept = layout.thinned(points, 7)
    assert_allclose(kept[[0, -1]], points[[0, -1]])
    assert len(kept) == 7 and (np.diff(kept[:, 0]) > 0).all()
    assert layout.thinned(points, 10_000) is points
