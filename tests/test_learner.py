"""Runs: rows really added and models really refitted, a history that adds up, reproducible, one compilation."""

import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from milb import acquisition, learner, scoring, strategy, training
from milb.learner import run
from milb.problems import PROBLEMS
from milb.training import negative_log_likelihood

pytestmark = pytest.mark.slow

PROBLEM = PROBLEMS["double_well"]
PROTOCOL = PROBLEM.protocol("smoke")
NAMES = ("random", "variance", "mi-lb-released", "bait", "core-set", "mi-lb")  # tests/test_study.py has all of them


@pytest.fixture(scope="module")
def runs():
    return {name: run(PROBLEM, name, 0, PROTOCOL, progress=False) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_history_and_picks(runs, name):
    result = runs[name]
    assert (result.problem, result.strategy, result.seed, result.training_seed) == ("double_well", name, 0, 0)
    assert result.protocol == PROTOCOL
    assert result.history["n"].tolist() == [40, 45, 50]
    assert result.picks.shape == (2, 5)
    picked = result.picks.ravel()
    assert len(set(picked.tolist())) == 10 and picked.min() >= 40 and picked.max() < 400
    statistics = result.history[["nll_q10", "nll_median", "nll_q90"]]
    assert np.isfinite(result.history["nll_mean"]).all() and (np.diff(statistics) >= 0).all()
    assert result.history.columns.tolist() == learner.COLUMNS
    scored = result.history.iloc[:-1]
    assert scored["saturated_share"].between(0, 1).all() and scored["batch_distance"].gt(0).all()
    assert scored["certificate_mean"].between(0, np.log(2) + 1e-6).all()
    if name in ("core-set", "bait"):
        assert scored["score_max"].isna().all()
        return
    assert (scored["score_min"] <= scored["score_picked"]).all() and (
        scored["score_picked"] <= scored["score_max"]
    ).all()


def test_all_strategies_of_a_seed_start_from_the_same_model(runs):
    assert len({result.history["nll_mean"][0] for result in runs.values()}) == 1
    assert len({tuple(result.picks[0]) for result in runs.values()}) > 1


def test_first_model_of_a_seed_is_trained_once(monkeypatch):
    trained, train = [], learner._train_round
    monkeypatch.setattr(learner, "_train_round", lambda *arguments: trained.append(arguments[3]) or train(*arguments))
    learner._first_round.cache_clear()
    runs = [run(PROBLEM, name, 0, PROTOCOL, progress=False) for name in ("random", "mi-lb")]
    assert trained == [40, 45, 50, 45, 50]
    other_seed = run(PROBLEM, "random", 1, PROTOCOL, progress=False)
    assert trained[5:] == [40, 45, 50]
    first = [result.history["nll_mean"][0] for result in (*runs, other_seed)]
    assert first[0] == first[1] != first[2]


def test_last_row_is_the_last_model_on_the_test_set(runs):
    result = runs["mi-lb"]
    dataset = PROBLEM.dataset(0, PROTOCOL.n_pool, PROTOCOL.n_test, PROTOCOL.n_initial)
    nll = negative_log_likelihood(result.ensemble, dataset.test_x, dataset.test_y)
    np.testing.assert_allclose(result.test_nll, nll, rtol=1e-3)
    assert result.history["nll_mean"].iloc[-1] == pytest.approx(float(nll.mean()), rel=1e-3)
    labelled = np.concatenate([np.arange(40), result.picks.ravel()])
    np.testing.assert_allclose(result.ensemble.outputs.mean, dataset.y[labelled].mean(0), rtol=1e-4, atol=1e-5)


def test_same_seed_same_run(runs):
    again = run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False)
    np.testing.assert_array_equal(again.picks, runs["mi-lb"].picks)
    timeless = [c for c in again.history if not c.endswith("seconds")]
    pd.testing.assert_frame_equal(again.history[timeless], runs["mi-lb"].history[timeless])


def test_training_seed_changes_training_and_not_the_data(runs):
    other = run(PROBLEM, "mi-lb", 0, PROTOCOL, progress=False, training_seed=1)
    assert other.training_seed == 1 and other.history["nll_mean"][0] != runs["mi-lb"].history["nll_mean"][0]


def test_one_compilation_serves_every_round_and_strategy(runs):
    training.fit_buffer.clear_cache()
    scoring._map_pool.clear_cache()
    for name in ("mi-lb", "random"):
        run(PROBLEM, name, 1, PROTOCOL, progress=False)
    assert training.fit_buffer._cache_size() == 1
    assert scoring._map_pool._cache_size() == 2


def test_the_whole_pool_can_be_labelled():
    protocol = PROTOCOL.replace(n_pool=50)
    result = run(PROBLEM, "mi-lb", 0, protocol, progress=False)
    assert sorted(result.picks.ravel().tolist()) == list(range(40, 50))


def test_no_rounds_is_one_training():
    result = run(PROBLEM, "random", 0, PROTOCOL.replace(n_rounds=0), progress=False)
    assert result.history["n"].tolist() == [40] and result.picks.shape == (0, 5)


def test_own_strategy():
    def lowest_sigma(key, ensemble, pool, k, options):
        sigma = jnp.where(pool.available, pool.x[:, 5], jnp.inf)
        return jnp.argsort(sigma)[:k]

    result = run(PROBLEM, lowest_sigma, 0, PROTOCOL, progress=False)
    sigma = PROBLEM.dataset(0, PROTOCOL.n_pool, PROTOCOL.n_test, PROTOCOL.n_initial).x[40:, 5]
    assert result.strategy == f"{__name__}.test_own_strategy.lowest_sigma" and result.history["score_max"].isna().all()
    np.testing.assert_array_equal(result.picks.ravel() - 40, np.argsort(sigma)[:10])


def test_progress_bar_leaves_nothing_on_stdout(capsys):
    run(PROBLEM, "random", 0, PROTOCOL, progress=True)
    assert capsys.readouterr().out == ""


def test_unknown_strategy():
    with pytest.raises(ValueError, match="unknown strategy 'best'"):
        run(PROBLEM, "best", 0, PROTOCOL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("double_well", "random", 0, PROTOCOL), "milb.problems.PROBLEMS"),
        ((PROBLEM, "random", 0, "demo"), "must be a Protocol"),
    ],
)
def test_wrong_objects(arguments, message):
    with pytest.raises(TypeError, match=message):
        run(*arguments)


def nan_beyond_one(keys, ensemble, x, options):
    return jnp.where(x[:, 0] > 1, jnp.nan, 0.0)


def test_scores_that_are_not_finite_stop_the_run():
    with pytest.raises(ValueError, match="scores must be finite on available rows") as raised:
        run(PROBLEM, strategy.Scored(nan_beyond_one, strategy.top_k), 0, PROTOCOL, progress=False)
    assert re.fullmatch(r"double_well .*nan_beyond_one.* seed 0, round 0", raised.value.__notes__[0])


@pytest.mark.parametrize(
    ("picks", "message"),
    [
        ([0, 50, 51, 52, 53], "picked row 0, which is labelled already"),
        ([50, 51, 52, 53, 50], "picked a row twice"),
        ([50.0, 51.0, 52.0, 53.0, 54.0], "must return 5 integers, got float"),
        ([50], "must return 5 integers"),
        ([50, 51, 52, 53, 400], "picked row 400, which is labelled already or not in the pool"),
        ([50, 51, 52, 53, -1], "picked row -1"),
        ([True] * 5, "must return 5 integers, got bool"),
    ],
)
def test_wrong_picks_never_reach_the_labelled_set(picks, message, tmp_path):
    def wrong(key, ensemble, pool, k, options):
        return np.array(picks)

    with pytest.raises(ValueError, match=message):
        run(PROBLEM, wrong, 0, PROTOCOL, progress=False, store=tmp_path / "run.npz")
    assert not (tmp_path / "run.npz").exists()


def test_strategies_are_told_apart_by_name():
    one, other = (strategy.Scored(score, strategy.top_k) for score in (nan_beyond_one, acquisition.random))
    assert len({strategy.name_of(s) for s in (one, other, "random", acquisition.random)}) == 4
    with pytest.raises(ValueError, match="a strategy needs a name"):
        run(PROBLEM, lambda *_: None, 0, PROTOCOL)


@pytest.mark.parametrize("name", ["random", "mi-lb", "core-set"])
def test_divergence_stops_every_strategy(name):
    with pytest.raises(FloatingPointError, match="training has diverged"):
        run(PROBLEM, name, 0, PROTOCOL.replace(learning_rate=1e30), progress=False)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, 2**32])
def test_refuses_seeds(seed):
    for seeds in ({"seed": seed}, {"seed": 0, "training_seed": seed}):
        with pytest.raises(ValueError, match="seed must be an integer from 0"):
            run(PROBLEM, "random", protocol=PROTOCOL, **seeds)


class Given:
    """A problem with whatever dataset it is given."""

    name = "given"

    def __init__(self, **changes):
        data = PROBLEM.dataset(0, PROTOCOL.n_pool, PROTOCOL.n_test, PROTOCOL.n_initial)._asdict()
        self.data = list((data | {name: change(data[name].copy()) for name, change in changes.items()}).values())

    def dataset(self, *_):
        return self.data


def nan_in_row_3(array):
    array[3, 1] = np.nan
    return array


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": lambda y: y[:12]}, r"y must have shape \(400, columns\), got \(12, 20\)"),
        ({"test_y": lambda y: y[0]}, "test_y must have shape"),
        ({"x": lambda x: np.concatenate([x, x])}, "x must have shape"),
        ({"test_x": lambda x: x[:, :3]}, "pool and test columns differ"),
        ({"y": lambda y: y[:, :0], "test_y": lambda y: y[:, :0]}, "y must have shape"),
        ({"y": lambda y: np.ma.masked_less(y, 0)}, "the dataset's y has .* masked entries"),
        ({"y": nan_in_row_3}, "y is nan in row 3, column 1"),
        ({"test_y": nan_in_row_3}, "test_y is nan in row 3, column 1"),
        (
            {"test_y": lambda y: np.where(np.arange(len(y))[:, None] == 4, 1e20, y)},
            "1e\\+20 in row 4, column 0: beyond",
        ),
    ],
)
def test_datasets_that_do_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        run(Given(**changes), "random", 0, PROTOCOL, progress=False)


def test_datasets_are_four_arrays():
    problem = Given()
    problem.data = problem.data[:3]
    with pytest.raises(ValueError, match="a dataset is 4 arrays, x, y, test_x, test_y; got 3"):
        run(problem, "random", 0, PROTOCOL, progress=False)


def test_large_integers_that_nobody_can_write_are_the_numbers_they_are():
    def large(array):
        return (1e12 * array).astype(np.int64)

    problem, protocol = Given(y=large, test_y=large), PROTOCOL.replace(n_rounds=0, max_steps=5)
    writable = run(problem, "random", 0, protocol, progress=False)
    for array in problem.data:
        array.setflags(write=False)
    pd.testing.assert_series_equal(
        *(r.history["nll_mean"] for r in (writable, run(problem, "random", 0, protocol, progress=False)))
    )


def test_constant_columns_are_named():
    def constant(x):
        x[:, 2] = 7
        return x

    with pytest.warns(UserWarning, match=r"x is constant over the labels in column\(s\) \[2\]"):
        run(Given(x=constant, test_x=constant), "random", 0, PROTOCOL.replace(n_rounds=0), progress=False)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_members_that_two_devices_cannot_share():
    n_members = 3
    code = f"""
import milb
milb.use_cpu_cores(2)
from milb.learner import run
from milb.problems import PROBLEMS

p = PROBLEMS["double_well"]
protocol = p.protocol("smoke").replace(n_members={n_members}, n_components=2, width=8, n_rounds=1)
for name in ("mi-lb", "mi-lb-maxdist", "bait"):
    print(run(p, name, 0, protocol, progress=False).history["nll_mean"][0])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    protocol = PROTOCOL.replace(n_members=n_members, n_components=2, width=8, n_rounds=0)
    one_device = run(PROBLEM, "random", 0, protocol, progress=False).history["nll_mean"][0]
    np.testing.assert_allclose([float(line) for line in result.stdout.split()], one_device, rtol=1e-3)
