"""Learning curves show the table they were given, and say what is wrong with one that they cannot show."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from milb import plots
from milb.plots import curves, strategy_style

N = [100, 150, 200]
ROUND = {"n": N, "round": [0, 1, 2], "nll_median": [40.0, 20.0, 10.0], "nll_q10": 2.0, "nll_q90": 200.0}


def run(strategy, seed, nll, share=np.nan, training_seed=None):
    training_seed = seed if training_seed is None else training_seed
    label = {"strategy": strategy, "seed": seed, "training_seed": training_seed}
    return pd.DataFrame(label | ROUND | {"nll_mean": nll, "saturated_share": share})


def shares(first, last):
    return [first, last, np.nan]  # after the last round nothing is scored


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    assert not plt.get_fignums()


@pytest.fixture
def table():
    runs = [
        run("random", 0, [900.0, 500.0, 300.0]),
        run("mi-lb", 0, [900.0, 300.0, 100.0], shares(0.9, 0.7)),
        run("random", 1, [700.0, 400.0, 100.0]),
        run("mi-lb", 1, [700.0, 200.0, 60.0], shares(0.8, 0.5)),
    ]
    return pd.concat(runs, ignore_index=True)


@pytest.fixture
def released():
    return pd.DataFrame({"strategy": ["mi-lb"] * 2, "seed": 0, "n": [100, 150], "test_nll": [950.0, 310.0]})


def lines(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def thin(ax):
    return [line for line in ax.lines if line.get_linewidth() < 1]


def texts(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_learning_curves_show_mean_range_and_every_seed(table):
    (ax,) = plots.curves.learning_curves(table).axes
    assert texts(ax.get_legend()) == ["Random", "MI-LB"]
    assert_allclose(lines(ax, "Random").get_ydata(), [800, 450, 200])
    assert_allclose(lines(ax, "MI-LB").get_xdata(), N)
    assert sorted(line.get_ydata()[-1] for line in thin(ax)) == [60, 100, 100, 300]
    band = ax.collections[0].get_paths()[0].vertices
    assert {(100, 700), (100, 900), (200, 100), (200, 300)} <= {tuple(vertex) for vertex in band}
    assert lines(ax, "MI-LB").get_color() == strategy_style("mi-lb")["color"]
    assert (ax.get_xlabel(), ax.get_yscale()) == ("labels n", "log")
    assert "nats" in ax.get_ylabel()
    assert "2 runs" in ax.get_title(loc="left")


def test_one_seed_is_one_line(table):
    (ax,) = curves.learning_curves(table[table["seed"] == 0]).axes
    assert len(ax.lines) == 2 and not ax.collections
    assert ax.get_title(loc="left") == "one run a strategy"


def test_the_same_seed_trained_again_is_a_run_of_its_own(table):
    again = pd.concat([table, run("random", 0, [600.0, 200.0, 50.0], training_seed=7)])
    (ax,) = curves.learning_curves(again).axes
    assert len(thin(ax)) == 3 + 2
    assert_allclose(lines(ax, "Random").get_ydata(), [2200 / 3, 1100 / 3, 150])


def test_the_mean_ends_where_the_first_run_does(table):
    unfinished = table.drop(index=table[(table["strategy"] == "mi-lb") & (table["seed"] == 1)].index[-1])
    (ax,) = curves.learning_curves(unfinished).axes
    assert_allclose(lines(ax, "MI-LB").get_ydata(), [800, 250, np.nan])


def test_values_that_are_not_positive_are_shown(table):
    table["nll_mean"] -= 200
    (ax,) = curves.learning_curves(table).axes
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[0] < table["nll_mean"].min() < 0


def test_error_quantiles_have_a_panel_a_strategy(table):
    fig = curves.error_quantiles(table)
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["Random", "MI-LB"]
    median, mean = fig.axes[1].lines
    assert_allclose(median.get_ydata(), ROUND["nll_median"])
    assert_allclose(mean.get_ydata(), [800, 250, 80])
    band = fig.axes[1].collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (2, 200)
    assert len(fig.legends[0].get_texts()) == 3
    assert all(ax.get_xlabel() == "labels n" for ax in fig.axes) and fig.axes[0].get_ylabel() == "test NLL (nats)"


def test_saturated_share_leaves_out_who_has_none(table):
    (ax,) = curves.saturated_share(table).axes
    assert texts(ax.get_legend()) == ["MI-LB"]
    assert_allclose(lines(ax, "MI-LB").get_ydata(), [0.85, 0.6])
    assert ax.get_ylim()[0] < 0 < 1 < ax.get_ylim()[1]


@pytest.mark.parametrize("drop", [["saturated_share"], []])
def test_saturated_share_of_nobody_is_an_error(table, drop):
    with pytest.raises(ValueError, match="saturated_share with values"):
        curves.saturated_share(table[table["strategy"] == "random"].drop(columns=drop))


def test_against_released(table, released):
    fig = curves.against_released(table, released, ["paper scale", "x" * 300])
    errors, share = fig.axes
    theirs = lines(errors, "MI-LB: released code")
    assert_allclose(theirs.get_ydata(), released["test_nll"])
    assert theirs.get_markerfacecolor() == "white"
    assert theirs.get_color() == strategy_style("mi-lb-released")["color"]
    assert texts(fig.legends[0]) == ["Random", "MI-LB", "MI-LB: released code"]
    assert_allclose(lines(share, "MI-LB").get_ydata(), [0.85, 0.6])
    assert fig.get_suptitle().startswith("paper scale\nxxx")


@pytest.mark.parametrize("column", ["strategy", "seed", "n", "nll_mean"])
def test_a_missing_column_is_named(table, column):
    with pytest.raises(ValueError, match=f"must have the columns strategy, seed, n, nll_mean; it lacks {column}$"):
        curves.learning_curves(table.drop(columns=column))


def test_other_missing_columns_are_named_too(table, released):
    with pytest.raises(ValueError, match="it lacks nll_q90"):
        curves.error_quantiles(table.drop(columns="nll_q90"))
    with pytest.raises(ValueError, match="it lacks test_nll"):
        curves.against_released(table, released.drop(columns="test_nll"), [])
    with pytest.raises(ValueError, match="it lacks nonsense"):
        curves.learning_curves(table, "nonsense")


def test_tables_that_make_no_sense(table):
    with pytest.raises(ValueError, match="no rows"):
        curves.learning_curves(table[:0])
    with pytest.raises(ValueError, match="n = 100 occurs twice in the run of 'random' with seed 0"):
        curves.learning_curves(pd.concat([table, table[:1]]))


def test_read_recorded_keeps_what_stands_above_the_table(tmp_path, table):
    path = tmp_path / "table.csv"
    path.write_text("# paper scale\n#  2 x CPU, 2026-01-01 \n" + table.to_csv(index=False))
    recorded = curves.read_recorded(path)
    assert recorded.notes == ("paper scale", "2 x CPU, 2026-01-01")
    pd.testing.assert_frame_equal(recorded.table, table)
    with pytest.raises(FileNotFoundError):
        curves.read_recorded(tmp_path / "no.csv")
