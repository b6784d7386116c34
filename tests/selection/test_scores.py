"""Selectors: the common suite over the registry, and the reference's picks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milb import selection

SELECTORS = {"top_k": selection.top_k, "top_k_ties_last": selection.top_k_ties_last}
every_selector = pytest.mark.parametrize("select", SELECTORS.values(), ids=SELECTORS)


def test_reference_picks(reference):
    data = reference("acquisition")
    np.testing.assert_array_equal(selection.top_k(data["max_dist/scores"], 25), data["top_k/selected_25"])


@every_selector
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_distinct_available_and_best(select, data):
    n = data.draw(st.sampled_from([1, 7, 20]))
    scores = np.array(
        data.draw(st.lists(st.sampled_from([-1e30, -1.0, 0.0, 0.5, 2.0, 1e30]), min_size=n, max_size=n)), np.float32
    )
    available = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if not available.any():
        return
    k = data.draw(st.sampled_from(sorted({1, int(available.sum())})))
    picks = np.asarray(select(scores, k, available))
    assert picks.shape == (k,) and len(set(picks.tolist())) == k and available[picks].all()
    left = available.copy()
    left[picks] = False
    assert not left.any() or scores[picks].min() >= scores[left].max()
    assert (np.diff(scores[picks]) <= 0).all()


def test_ties_go_to_the_lowest_index_or_as_released_to_the_highest():
    scores = np.array([1.0, 2.0, 2.0, 1.0, 2.0], np.float32)
    np.testing.assert_array_equal(selection.top_k(scores, 4), [1, 2, 4, 0])
    np.testing.assert_array_equal(selection.top_k_ties_last(scores, 4), [4, 2, 1, 3])


@every_selector
def test_positions_are_dataset_rows(select):
    available = np.zeros(10, bool)
    available[[7, 9]] = True
    scores = np.arange(10, 0, -1, dtype=np.float32)
    np.testing.assert_array_equal(select(scores, 2, available), [7, 9])


@every_selector
def test_jit_and_vmap_equal_a_loop(select):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(6, 30)).astype(np.float32)
    available = rng.random((6, 30)) < 0.5
    mapped = jax.jit(jax.vmap(lambda s, a: select(s, 5, a)))(scores, available)
    for row in range(6):
        np.testing.assert_array_equal(mapped[row], select(scores[row], 5, available[row]))


@every_selector
def test_inside_jit_what_is_not_finite_comes_last_but_before_what_is_not_available(select):
    scores = jnp.array([np.nan, 1.0, -np.inf, np.inf, -5.0, 9.0])
    available = jnp.array([True, True, True, True, True, False])
    picks = np.asarray(jax.jit(lambda s, a: select(s, 5, a))(scores, available))
    np.testing.assert_array_equal(picks[:2], [1, 4])
    assert set(picks.tolist()) == {0, 1, 2, 3, 4}


@every_selector
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_scores_that_are_not_finite_unless_masked(select, bad):
    scores = np.array([1.0, bad, 3.0], np.float32)
    with pytest.raises(ValueError, match="row 1 has"):
        select(scores, 1)
    np.testing.assert_array_equal(select(scores, 2, np.array([True, False, True])), [2, 0])


SCORES = np.arange(4, dtype=np.float32)


@every_selector
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((SCORES, 0), "k must be between 1 and the 4 available rows, got 0"),
        ((SCORES, 5), "k must be between 1 and the 4 available rows, got 5"),
        ((SCORES, 2, np.arange(4) == 1), "the 1 available rows, got 2"),
        ((SCORES[None], 1), r"scores must have shape \(N,\)"),
        ((SCORES, 1, np.ones(3, bool)), "available must be a boolean mask"),
        ((SCORES, 1, np.ones(4, int)), "available must be a boolean mask"),
        ((SCORES[:0], 1), "k must be between"),
    ],
)
def test_refuses(select, arguments, message):
    with pytest.raises(ValueError, match=message):
        select(*arguments)


@every_selector
def test_k_too_large_raises_inside_jit_too(select):
    with pytest.raises(ValueError, match="k must be between"):
        jax.jit(lambda s: select(s, 5))(SCORES)


def test_sbal_of_reference(reference):
    data = reference("acquisition")
    picks = selection.sbal(jax.random.PRNGKey(7), data["max_dist/scores"], 25)
    np.testing.assert_array_equal(picks, data["sbal/selected_25_temperature_1_key_7"])


def test_sbal_draws_from_the_softmax():
    scores = np.array([0.0, 1.0, 2.0, -1.0], np.float32)
    draws = jax.vmap(lambda key: selection.sbal(key, scores, 1, 0.7)[0])(jax.random.split(jax.random.key(0), 20_000))
    expected = np.exp(scores / 0.7) / np.exp(scores / 0.7).sum()
    np.testing.assert_allclose(np.bincount(draws, minlength=4) / 20_000, expected, atol=0.015)


def test_sbal_at_the_ends_of_temperature():
    scores = np.random.default_rng(0).normal(size=40).astype(np.float32)
    np.testing.assert_array_equal(selection.sbal(jax.random.key(0), scores, 5, 1e-6), selection.top_k(scores, 5))
    for huge, temperature in ((1e30 * scores, 1e-12), (scores, 1e-38)):  # quotients would leave float32
        np.testing.assert_array_equal(
            selection.sbal(jax.random.key(0), huge, 5, temperature), selection.top_k(scores, 5)
        )
    first = [int(selection.sbal(jax.random.key(seed), scores, 1, 1e9)[0]) for seed in range(60)]
    assert len(set(first)) > 20


def test_sbal_at_any_high_temperature_is_the_same_uniform_draw():
    picks = [selection.sbal(jax.random.key(3), SCORES, 2, temperature) for temperature in (1e12, 1e20, 1e30)]
    np.testing.assert_array_equal(picks[1], picks[0])
    np.testing.assert_array_equal(picks[2], picks[0])


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, np.nan, 1e31])
def test_sbal_refuses_temperature(temperature):
    with pytest.raises(ValueError, match="temperature must be positive"):
        selection.sbal(jax.random.key(0), SCORES, 1, temperature)
