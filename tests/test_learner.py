"""Runs: rows really added and models really refitted, a history that adds up, reproducible, one compilation."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from milb import learner
from milb.learner import run
from milb.problems import PROBLEMS
from milb.strategy import STRATEGIES
from milb.training import negative_log_likelihood

PROBLEM = PROBLEMS["double_well"]
PROTOCOL = PROBLEM.protocol("smoke")


@pytest.fixture(scope="module")
def runs():
    return {name: run(PROBLEM, name, 0, PROTOCOL, progress=False) for name in STRATEGIES}


@pytest.mark.parametrize("name", STRATEGIES)
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
    if name == "core-set":
        assert "score_max" not in result.history
        return
    scored = result.history.iloc[:-1]
    assert (scored["score_min"] <= scored["score_picked"]).all() and (
        scored["score_picked"] <= scored["score_max"]
    ).all()
    headroom = getattr(STRATEGIES[name], "headroom", None)
    assert ("saturated_share" in result.history) == (headroom is not None)


def test_all_strategies_of_a_seed_start_from_the_same_model(runs):
    assert len({result.history["nll_mean"][0] for result in runs.values()}) == 1
    assert len({tuple(result.picks[0]) for result in runs.values()}) > 1


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
    learner._train_round.clear_cache()
    learner._propose_round.clear_cache()
    for name in ("mi-lb", "random"):
        run(PROBLEM, name, 1, PROTOCOL, progress=False)
    assert learner._train_round._cache_size() == 1
    assert learner._propose_round._cache_size() == 2


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
    assert result.strategy == "lowest_sigma" and "score_max" not in result.history
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


def test_scores_that_are_not_finite_stop_the_run():
    broken = learner.strategies.Scored(
        lambda keys, ensemble, x, options: jnp.where(x[:, 0] > 1, jnp.nan, 0.0),
        STRATEGIES["mi-lb"].select,
    )
    with pytest.raises(FloatingPointError, match="score nan at dataset row"):
        run(PROBLEM, broken, 0, PROTOCOL, progress=False)
