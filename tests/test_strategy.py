"""Strategies: the common suite over the registry, and what the three readings of MI-LB do."""

import functools
import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import selection, strategy
from milb.mdn import features, predict
from milb.protocol import Options
from milb.strategy import STRATEGIES, Pool

pytestmark = pytest.mark.slow

KEY = jax.random.key(5)
LABELLED = [3, 11, 29, 30, 31]

# The others are made of the same parts.
REPRESENTATIVE = {"random", "mi-lb", "mi-lb-maxdist", "bait", "core-set"}


def marked(name):
    return pytest.param(name, marks=() if name in REPRESENTATIVE else pytest.mark.exhaustive)


every_strategy = pytest.mark.parametrize("name", [marked(name) for name in STRATEGIES])


def pool_of(x, labelled=LABELLED, buffer=20, never=()):
    available = np.ones(len(x), bool)
    available[[*labelled, *never]] = False
    rows = np.zeros(buffer, np.int32)
    rows[: len(labelled)] = labelled
    return Pool(jnp.asarray(x), jnp.asarray(available), jnp.asarray(rows), jnp.asarray(len(labelled)))


@pytest.mark.sample(6)
@every_strategy
@pytest.mark.parametrize("k", [pytest.param(1, marks=pytest.mark.exhaustive), 10, 45])
def test_k_distinct_rows_that_are_not_labelled(name, k, ensemble, data):
    picks = np.asarray(STRATEGIES[name](KEY, ensemble, pool_of(data.x), k))
    assert picks.shape == (k,) and len(set(picks.tolist())) == k
    assert not set(picks.tolist()) & set(LABELLED) and picks.min() >= 0 and picks.max() < 50


@every_strategy
def test_k_larger_than_what_is_left(name, ensemble, data):
    with pytest.raises(ValueError, match="k must be between 1 and the 45 available rows, got 46"):
        STRATEGIES[name](KEY, ensemble, pool_of(data.x), 46)


@pytest.mark.sample(2)
@every_strategy
def test_padding_of_the_labelled_buffer_changes_nothing(name, ensemble, data):
    short, long = (STRATEGIES[name](KEY, ensemble, pool_of(data.x, buffer=b), 10) for b in (5, 40))
    np.testing.assert_array_equal(short, long)


@every_strategy
def test_jit_equals_eager_and_does_not_retrace(name, ensemble, data):
    propose = jax.jit(lambda key, pool: STRATEGIES[name](key, ensemble, pool, 10, Options()))
    np.testing.assert_array_equal(propose(KEY, pool_of(data.x)), STRATEGIES[name](KEY, ensemble, pool_of(data.x), 10))
    propose(KEY, pool_of(data.x, labelled=[1, 2]))
    assert propose._cache_size() == 1


@pytest.mark.sample(3)
@every_strategy
def test_duplicated_rows_are_picked_once_each(name, ensemble, data):
    x = np.tile(data.x[:2], (5, 1))
    picks = np.asarray(STRATEGIES[name](KEY, ensemble, pool_of(x, labelled=[0]), 9))
    assert sorted(picks.tolist()) == list(range(1, 10))


@every_strategy
def test_nan_in_a_pool_row_is_refused_unless_it_cannot_be_picked(name, ensemble, data):
    x = data.x.copy()
    x[7] = np.nan
    if name == "random":
        pytest.skip("does not look at x")
    with pytest.raises(ValueError, match="row 7 "):
        STRATEGIES[name](KEY, ensemble, pool_of(x), 10)
    assert len(STRATEGIES[name](KEY, ensemble, pool_of(x, never=[7]), 10)) == 10


def test_exact_and_float64_mi_lb_pick_alike(ensemble, data):
    """Where MI-LB is not saturated, -log gap, the value and the released difference rank alike."""
    picks = {
        name: np.asarray(STRATEGIES[name](KEY, ensemble, pool_of(data.x), 5)) for name in ("mi-lb", "mi-lb-released")
    }
    scores = STRATEGIES["mi-lb"].propose(KEY, ensemble, pool_of(data.x), 5, Options()).scores
    top = np.sort(np.asarray(scores))[::-1][:8]
    assert (np.diff(top) < -1e-3).all(), "the case must have distinct gaps"
    np.testing.assert_array_equal(picks["mi-lb"], picks["mi-lb-released"])


def test_ties_are_drawn_among_the_saturated_and_filled_up_with_the_next_best(ensemble):
    scores = jnp.array([-1.0, -2.0, -1.005, -3.0, -1.02, -1.009])
    available = jnp.array([True, True, True, True, True, False])

    def pick(key, k):
        pool = Pool(jnp.zeros((6, 1)), available, jnp.zeros(1, int), jnp.asarray(0))
        return tuple(np.asarray(strategy.near_maximum(key, scores, ensemble, pool, k, Options())).tolist())

    drawn = {pick(key, 1) for key in jax.random.split(KEY, 40)}
    assert drawn == {(0,), (2,)}
    four = pick(KEY, 4)
    assert set(four[:2]) == {0, 2} and four[2:] == (4, 1)


def test_unknown_name_lists_what_there_is():
    with pytest.raises(ValueError, match=r"unknown strategy 'mi-bl'; there are 'random', 'variance', .*'mi-lb'"):
        strategy.get("mi-bl")


def test_any_function_of_the_signature_is_a_strategy(ensemble, data):
    def first(key, ensemble, pool, k, options):
        return jnp.flatnonzero(pool.available, size=k)

    assert strategy.get(first) is first
    proposal = strategy.propose(first, KEY, ensemble, pool_of(data.x), 3, Options())
    assert proposal.scores is None and proposal.indices.tolist() == [0, 1, 2]


def options_change_picks(name, data, ensemble, **changes):
    pool = pool_of(data.x)
    plain, changed = (np.asarray(STRATEGIES[name](KEY, ensemble, pool, 10, o)) for o in (Options(), Options(**changes)))
    return plain.tolist() != changed.tolist()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("variance-sbal", {"sbal_temperature": 1e-4}),
        ("variance-sbal", {"variance": "trace"}),
        ("mi-lb-sbal", {"sbal_temperature": 0.01}),
        ("mi-lb-maxdist", {"max_dist_weight": 100.0}),
        ("mi-lb-maxdist", {"max_dist_features": "inputs"}),
    ],
)
def test_options_reach_their_rule(name, changes, ensemble, data):
    assert options_change_picks(name, data, ensemble, **changes)


def test_variance_ranks_alike_by_mean_and_trace(ensemble, data):
    assert not options_change_picks("variance", data, ensemble, variance="trace")


def test_core_set_and_max_dist_see_what_the_released_experiments_saw(ensemble, data):
    pool = pool_of(data.x)
    hidden = np.asarray(features(ensemble, data.x))[0]
    expected = selection.k_center(hidden, hidden[LABELLED], 10, pool.available)
    np.testing.assert_array_equal(STRATEGIES["core-set"](KEY, ensemble, pool, 10), expected)

    means = np.concatenate(list(np.asarray(predict(ensemble, data.x).mean())), axis=1)
    assert means.shape == (50, ensemble.n_members * ensemble.n_outputs)
    scores = STRATEGIES["mi-lb-ties"].propose(KEY, ensemble, pool, 1, Options()).scores
    expected = selection.max_dist(scores, means, means[LABELLED], 10, 1.0, pool.available)
    np.testing.assert_array_equal(STRATEGIES["mi-lb-maxdist"](KEY, ensemble, pool, 10), expected)


@pytest.mark.parametrize("name", ["mi-lb-lcmd", "mi-pairwise-lcmd"])
def test_lcmd_spreads_out_among_the_best(name, ensemble, data):
    """Candidates are the best 10 k by score; where they are all that is left, it is LCMD on all of them."""
    pool, k = pool_of(data.x), 2
    means = predict(ensemble, data.x).mean() / ensemble.outputs.scale[None, None]
    features = np.concatenate(list(np.asarray(means)), axis=1)
    scores = np.asarray(STRATEGIES[name].propose(KEY, ensemble, pool, k, Options()).scores)
    best = [row for row in np.argsort(-scores) if pool.available[row]][: 10 * k]
    candidates = np.isin(np.arange(50), best)
    expected = selection.lcmd(features, features[LABELLED], k, available=candidates)
    np.testing.assert_array_equal(STRATEGIES[name](KEY, ensemble, pool, k), expected)
    everyone = selection.lcmd(features, features[LABELLED], 5, available=pool.available)
    np.testing.assert_array_equal(STRATEGIES[name](KEY, ensemble, pool, 5), everyone)


def test_lcmd_takes_all_that_tie_as_candidates(ensemble, data):
    pool = pool_of(data.x)
    picks = {tuple(strategy.lcmd(KEY, scores, ensemble, pool, 2, Options()).tolist()) for scores in jnp.ones((1, 50))}
    assert picks == {tuple(STRATEGIES["mi-lb-lcmd"](KEY, ensemble, pool, 5)[:2].tolist())}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_option_that_is_read_is_known_to_be(name):
    """By the sources: an option is named where it is read, or in the docstring."""
    sources = map(inspect.getsource, strategy._parts(STRATEGIES[name]))
    assert strategy.options_read(name) == {*re.findall(r"options\.([a-z_]+)", "".join(sources))}


def test_a_part_of_ones_own_may_read_any_option():
    def own(keys, ensemble, x, options):
        return x[:, 0]

    class Other(strategy.Scored):
        pass

    every = frozenset().union(*map(strategy.options_read, STRATEGIES))
    scored = STRATEGIES["mi-lb"]
    wrapped = functools.wraps(strategy.bait)(lambda *arguments: strategy.bait(*arguments))
    for mine in (strategy.Scored(own, strategy.top_k), Other(scored.score, scored.select), wrapped, lambda *_: None):
        assert strategy.options_read(mine) == every
