"""Figures of a study."""

import pandas as pd
import pytest

from milb.plots import study


@pytest.fixture
def table():
    rows = [
        (benchmark, name, seed, n, 30 / n * (seed + 1) * (1 + (name == "random")))
        for benchmark in ("double_well", "ternary")
        for name in ("random", "mi-lb")
        for seed in (0, 1)
        for n in (100, 150, 200)
    ]
    return pd.DataFrame(rows, columns=["benchmark", "strategy", "seed", "n", "test_nll"])


def test_curves_have_a_panel_a_benchmark_and_leave_out_what_is_not_there(table):
    fig = study.learning_curves(table, ["random", "mi-lb", "bait"], {"ternary": 0.1})
    assert [ax.get_title("left") for ax in fig.axes] == ["coupled double-well", "ternary phases"]
    assert [len(ax.lines) for ax in fig.axes] == [2, 3]
    assert [text.get_text() for text in fig.legends[0].texts] == ["Random", "MI-LB", "oracle"]
    assert list(fig.axes[0].lines[1].get_ydata()) == pytest.approx([0.45, 0.3, 0.225])


def test_ticked_curves_come_and_go_on_axes_that_stay(table):
    spreads = study.spread_over_seeds(table)
    assert list(spreads) == ["double_well", "ternary"] and list(spreads["ternary"]) == ["random", "mi-lb"]
    assert spreads["ternary"]["mi-lb"].loc[150].tolist() == pytest.approx([0.3, 0.2, 0.4])
    both, one, none = (
        study.ticked_curves(spreads, {"random": random, "mi-lb": mi_lb}, {"ternary": 0.1})
        for random, mi_lb in ((True, True), (False, True), (False, False))
    )
    assert [[len(ax.lines) for ax in fig.axes] for fig in (both, one, none)] == [[2, 3], [1, 2], [0, 1]]
    assert [text.get_text() for text in one.legends[0].texts] == ["MI-LB", "oracle"]
    for ax, same in zip(both.axes, none.axes, strict=True):
        assert ax.get_xlim() == same.get_xlim() and ax.get_ylim() == same.get_ylim()
        assert ax.get_yscale() == "log"
    assert none.axes[1].get_ylim()[0] < 0.1  # the oracle is seen, too


def test_final_errors_are_those_of_the_last_labels(table):
    paper = pd.DataFrame(
        [("ternary", "random", 550, 0.2, 0.1, 0.3)], columns=["benchmark", "strategy", "n", "mean", "min", "max"]
    )
    fig = study.final_errors(table, paper, {})
    assert fig.axes[0].get_title("left") == "coupled double-well\nours n = 200"
    assert fig.axes[1].get_title("left") == "ternary phases\nours n = 200, paper n = 550"
    spans = [tuple(line.get_xdata()) for line in fig.axes[1].lines if len(line.get_xdata()) == 2]
    assert (0.1, 0.3) in spans
    assert [label.get_text() for label in fig.axes[0].get_yticklabels()] == ["Random", "MI-LB"]


def test_what_all_runs_have_come_to(table):
    ahead = table.drop(table.index[(table["benchmark"] == "ternary") & (table["seed"] == 1) & (table["n"] == 200)])
    common = study.in_common(ahead)
    assert common.groupby("benchmark")["n"].max().to_dict() == {"double_well": 200, "ternary": 150}
    assert len(common) == 12 + 8
    pd.testing.assert_frame_equal(study.in_common(table), table)
    behind = table["benchmark"].eq("ternary") & table["strategy"].eq("mi-lb") & table["n"].eq(200)
    pd.testing.assert_frame_equal(study.in_common(table[~behind], ["random"]), table[~behind])


def test_runs_beyond_the_others_beside_the_papers_ends(table):
    paper = pd.DataFrame(
        [("ternary", "random", 200, 0.2, 0.1, 0.3)], columns=["benchmark", "strategy", "n", "mean", "min", "max"]
    )
    behind = (table["seed"] == 1) & (table["strategy"] == "mi-lb") & (table["n"] == 200)
    ax, theirs = study.beyond_the_others(table[~behind], paper, "ternary").axes
    lines = [(line.get_label(), list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert ("all runs have come to here", [150, 150], [0, 1]) in lines
    means = {label: y for label, _, y in lines if label in ("Random", "MI-LB")}
    assert means["Random"] == pytest.approx([0.9, 0.6, 0.45])
    assert means["MI-LB"] == pytest.approx([0.3, 0.2, 0.15]), "of the seed that has come so far"
    assert [list(line.get_ydata()) for line in theirs.lines] == [[0.1, 0.3], [0.2]]
    assert theirs.get_title("left").endswith("n = 200")
    assert not any(
        "come to here" in line.get_label() for line in study.beyond_the_others(table, paper, "ternary").axes[0].lines
    )


def test_recorded_curves_are_ours_in_the_papers_order(tmp_path):
    rows = ["milb,ternary,mi-lb,,0,115,2", "milb,ternary,mi-lb,clip=member,0,115,2", "paper,ternary,mi-lb,,mean,550,2"]
    rows += ["milb,multimodal,mi-lb,,0,100,3"]
    text = "\n".join(["source,benchmark,strategy,options,seed,n,test_nll", *rows])
    (tmp_path / "learning_curves.csv").write_text(text + "\n")
    assert study.read_curves(tmp_path)["benchmark"].tolist() == ["multimodal", "ternary"]
