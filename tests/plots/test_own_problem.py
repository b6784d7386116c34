"""Figures of a problem of one's own: what is drawn is what was given, and pairs are pairs."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from milb.ask_tell.modes import Modes
from milb.plots import own_problem

RNG = np.random.default_rng(0)
AXES = {"x": "T", "y": "w", "first": "H", "second": "d", "input": "T", "output": "H"}


@pytest.fixture(scope="module")
def table():
    """Three strategies, six seeds: b is 1 better than random on every seed, c is random with noise."""
    random = RNG.normal(size=6)
    values = {"random": random, "mi-lb": random - 1, "core-set": random + RNG.normal(size=6)}
    rows = [(name, seed, value) for name, column in values.items() for seed, value in enumerate(column)]
    return pd.DataFrame(rows, columns=["strategy", "seed", "nll_mean"])


def test_paired_differences(table):
    found = own_problem.paired_differences(table.sample(frac=1, random_state=0).sort_values("strategy"), "nll_mean")
    assert set(found.index) == {"mi-lb", "core-set"} and list(found.columns[4:]) == list(range(6))
    np.testing.assert_allclose(found.loc["mi-lb", ["mean", "low", "high"]].astype(float), -1)
    assert found.loc["mi-lb", "better"] == 6
    wide = table.pivot(index="seed", columns="strategy", values="nll_mean")
    expected = stats.ttest_rel(wide["core-set"], wide["random"]).confidence_interval(0.95)
    np.testing.assert_allclose(found.loc["core-set", ["low", "high"]].astype(float), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[t["strategy"] != "random"], "the table has no strategy 'random'"),
        (lambda t: t.iloc[:-1], "every strategy must have every seed"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "duplicate"),
    ],
)
def test_refuses_what_is_no_pair(table, change, message):
    with pytest.raises(ValueError, match=message):
        own_problem.paired_differences(change(table), "nll_mean")


def test_every_seed_is_drawn(table):
    found = own_problem.paired_differences(table, "nll_mean")
    fig = own_problem.paired({"all": found, "last": found}, "difference (nats)")
    left = fig.axes[0]
    seeds = [line for line in left.lines if line.get_marker() == "|"]
    assert [len(line.get_xdata()) for line in seeds] == [6, 6]
    assert [ax.get_title("left") for ax in fig.axes] == ["all", "last"]
    assert [text.get_text() for text in left.get_yticklabels()] == ["MI-LB", "Core-Set"]


def test_forecast_draws_modes_with_their_shares():
    y, density = np.linspace(0, 1, 5), RNG.uniform(size=(3, 5))
    modes = [Modes(np.array([[0.2, 0], [0.8, 0], [0.5, 0]]), np.array([0.7, 0.28, 0.02]))] * 3
    fig = own_problem.forecast(np.array([1.0, 2, 3]), y, density, density + 1, modes, 1, AXES)
    left, right = fig.axes
    assert [text.get_text() for text in right.texts] == ["70 %", "28 %"] and "= 2, modes" in right.get_title("left")
    assert sum(len(points.get_offsets()) for points in left.collections[1:]) == 6
    np.testing.assert_array_equal(right.lines[0].get_ydata(), density[1])


def test_reports_with_and_without_a_test_set():
    columns = {"nll": [3.0, 2], "nll_error": [1.0, 1], "unconditional_nll": [2.5, 2.5], "certificate_high": [0.5, 0.2]}
    curve = pd.DataFrame(columns, index=[10, 20])
    labels = [
        len(own_problem.reports(table).axes[0].get_legend_handles_labels()[1])
        for table in (curve, curve.assign(test_nll=1.0))
    ]
    assert labels == [2, 3]


def test_outcomes_and_next_batch():
    points = RNG.uniform(size=(30, 2))
    share = RNG.uniform(size=(4, 5))
    fig = own_problem.outcomes((np.arange(4), np.arange(5)), share, points, np.arange(30) % 2, AXES, ("a", "b"))
    assert isinstance(fig, Figure) and [len(c.get_offsets()) for c in fig.axes[1].collections] == [15, 15]
    asked = {"mi-lb": points[:3], "random": points[3:5]}
    fig = own_problem.next_batch(points, points[5:9], points[9:10], asked, "T", "w")
    assert [len(ax.collections[-1].get_offsets()) for ax in fig.axes] == [3, 2]
