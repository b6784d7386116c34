"""The replay shows what was recorded, at the round that was asked for."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_allclose

from milb import paths
from milb.plots import replay, strategy_style
from milb.plots.replay import Recording, Run
from milb.problems import PROBLEMS

RANDOM = np.random.default_rng(0)
N, S, R, K = 60, 30, 4, 3


def run(name, scores=None):
    picks = 10 + RANDOM.permutation(50)[: R * K].reshape(R, K)
    picks[-1] = -1  # of the last model nothing was asked
    scores = np.full((R - 1, S), np.nan) if scores is None else scores
    return Run(
        name, 10 + K * np.arange(R), np.array([80.0, 40, 20, 10]), np.array([0.9, 0.5, 0.1, np.nan]), picks, scores
    )


@pytest.fixture(scope="module")
def recording():
    points = RANDOM.uniform(size=(N, 2))
    runs = [run("mi-lb", RANDOM.normal(size=(R - 1, S))), run("bait")]
    return Recording("double_well", points, ("a", "b"), np.arange(0, N, 2), 10, {r.strategy: r for r in runs})


def positions(ax, label):
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line.get_xydata(), line


@pytest.mark.parametrize("model", range(R))
def test_labels_appear_round_by_round(recording, model):
    fig = replay.at_round(recording, "mi-lb", "bait", model)
    for ax, name in zip(fig.axes, ("mi-lb", "bait"), strict=False):
        picks = recording.runs[name].picks
        before, line = positions(ax, "labelled")
        assert_allclose(before, recording.points[picks[:model].ravel()])
        assert to_rgba(line.get_color()) == to_rgba(strategy_style(name)["color"])
        assert_allclose(positions(ax, "next")[0], recording.points[picks[model]] if model < R - 1 else np.zeros((0, 2)))
        assert_allclose(positions(ax, "first labels")[0], recording.points[:10])
        assert f"{10 + K * model} labels" in ax.get_title(loc="left")


def test_cursor_and_gauge(recording):
    *_, curve, gauge = replay.at_round(recording, "mi-lb", "bait", 2).axes
    cursors = [line.get_xydata()[0].tolist() for line in curve.lines if len(line.get_xydata()) == 1]
    assert cursors == [[16.0, 20.0]] * 2
    assert curve.get_ylabel() == "test NLL, mean (nats)"
    assert [text.get_text() for text in gauge.texts] == ["10.0 %", "10.0 %"]
    *_, gauge = replay.at_round(recording, "mi-lb", "bait", 3).axes
    assert [text.get_text() for text in gauge.texts] == ["not recorded"] * 2


def test_score_map_is_the_mean_rank_in_a_cell(recording):
    mi_lb, bait = recording.runs.values()
    values = replay.score_map(recording, mi_lb, 1)
    low, high = recording.points.min(0), recording.points.max(0)
    place = recording.points[recording.subset]
    cell = np.minimum(((place - low) / (high - low) * 14).astype(int), 13)
    rank = mi_lb.scores[1].argsort().argsort() + 0.5
    for x, y in np.unique(cell, axis=0):
        inside = (cell == (x, y)).all(axis=1)
        assert values[y, x] == pytest.approx(rank[inside].mean() / S)
    assert np.isfinite(values).sum() == len(np.unique(cell, axis=0))
    assert np.isnan(replay.score_map(recording, bait, 1)).all()
    assert np.isnan(replay.score_map(recording, mi_lb, R - 1)).all()


def test_ties_share_a_rank(recording):
    tied = run("mi-lb-released", np.zeros((R - 1, S)))
    assert_allclose(np.nanmax(np.abs(replay.score_map(recording, tied, 0) - 0.5)), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mi-lb", "random", 0), "strategy must be one of mi-lb, bait, got 'random'"),
        (("mi-lb", "bait", 4), r"0 \.\. 3, got 4"),
    ],
)
def test_what_is_not_recorded_is_refused(recording, arguments, message):
    with pytest.raises(ValueError, match=message):
        replay.at_round(recording, *arguments)


def test_unknown_benchmark():
    with pytest.raises(ValueError, match="benchmark must be one of multimodal, double_well, ternary, got 'well'"):
        replay.read(paths.figures_data(), "well")


@pytest.mark.slow
def test_recorded_runs_are_read_as_they_were_made():
    data = paths.figures_data()
    recording = replay.read(data, "double_well")
    with np.load(data / "picks_double_well.npz") as file:
        names, picks, subset = file["strategies"].tolist(), file["picks"][0], file["subset"]
        scored, scores = file["scored"].tolist(), file["scores"]
    assert list(recording.runs) == names
    assert recording.n_models <= len(scores)  # some runs have come further than all
    for name, found in recording.runs.items():
        assert (np.diff(found.n) == picks.shape[-1]).all() and found.n[0] == recording.n_initial
        assert_allclose(found.picks, picks[names.index(name), : len(found.n)])
        assert np.isfinite(found.nll).all()
        assert np.isnan(found.saturated[0]) == (not name.startswith("mi-lb"))
    for i, name in enumerate(scored):
        assert_allclose(recording.runs[name].scores, scores[:, i].astype(float))
    assert (recording.subset == subset).all()
    assert len({found.nll[0] for found in recording.runs.values()}) == 1  # all start alike


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["double_well", "ternary", "multimodal"])
def test_inputs_are_those_of_the_dataset(name):
    sizes = (1, 40, 5, 10)
    assert_allclose(PROBLEMS[name].inputs(*sizes), PROBLEMS[name].dataset(*sizes).x, rtol=1e-6)
