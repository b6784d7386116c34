"""The suite every selector passes, over the registry: whatever they see, k distinct rows that may be picked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milb.selection import SELECTORS, bait, k_center, lcmd, max_dist, sbal, top_k, top_k_ties_last

KEY = jax.random.key(0)

# One signature for all: (scores, features, labelled_features, k, available, labelled_mask)
SELECT = {
    top_k: lambda s, f, lf, k, a=None, m=None: top_k(s, k, a),
    top_k_ties_last: lambda s, f, lf, k, a=None, m=None: top_k_ties_last(s, k, a),
    sbal: lambda s, f, lf, k, a=None, m=None: sbal(KEY, s, k, 0.5, a),
    max_dist: lambda s, f, lf, k, a=None, m=None: max_dist(s, f, lf, k, 1.0, a, m),
    k_center: lambda s, f, lf, k, a=None, m=None: k_center(f, lf, k, a, m),
    lcmd: lambda s, f, lf, k, a=None, m=None: lcmd(f, lf, k, None, a, m),
    bait: lambda s, f, lf, k, a=None, m=None: bait(f, f, lf, lf, k, available=a, labelled_mask=m),
}
every_selector = pytest.mark.parametrize("select", [SELECT[s] for s in SELECTORS.values()], ids=SELECTORS)
with_features = pytest.mark.parametrize(
    "select", [SELECT[s] for s in (max_dist, k_center, lcmd, bait)], ids=lambda s: ""
)
with_scores = pytest.mark.parametrize("select", [SELECT[s] for s in (top_k, top_k_ties_last, sbal, max_dist)])


def case(n=30, n_labelled=5, d=3, seed=0):
    rng = np.random.default_rng(seed)
    scores, features, labelled = rng.normal(size=n), rng.normal(size=(n, d)), rng.normal(size=(n_labelled, d))
    return tuple(array.astype(np.float32) for array in (scores, features, labelled))


def check(picks, k, available):
    picks = np.asarray(picks)
    assert picks.shape == (k,) and len(set(picks.tolist())) == k and picks.min() >= 0
    assert available[picks].all()
    return picks


@every_selector
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_k_distinct_available_rows(select, data):
    n, n_labelled = data.draw(st.sampled_from([(1, 0), (12, 4)]))
    values = st.sampled_from([-1e30, -1.0, 0.0, 0.0, 1.0, 1e18])
    scores, features, labelled = case(n, n_labelled, 2)
    scores = np.array(data.draw(st.lists(values, min_size=n, max_size=n)), np.float32)
    if data.draw(st.booleans()):
        features = np.array(data.draw(st.lists(values, min_size=2 * n, max_size=2 * n)), np.float32).reshape(n, 2)
        features = np.clip(features, -1e15, 1e15)
    available = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n_labelled, max_size=n_labelled)), bool)
    if not available.any():
        available[0] = True
    k = data.draw(st.sampled_from(sorted({1, int(available.sum())})))
    check(select(scores, features, labelled, k, available, mask), k, available)


@every_selector
def test_k_is_all_that_is_left(select):
    scores, features, labelled = case()
    available = np.arange(30) % 3 == 0
    assert sorted(check(select(scores, features, labelled, 10, available), 10, available)) == list(range(0, 30, 3))


@every_selector
def test_labelled_rows_of_a_pool_of_ten(select):
    """Positions are not ids: rows 7 and 9 are labelled, all others are picked, by their number in the pool."""
    scores, features, _ = case(10)
    available = ~np.isin(np.arange(10), [7, 9])
    picks = select(scores, features, features[[7, 9]], 8, available)
    assert sorted(np.asarray(picks).tolist()) == [0, 1, 2, 3, 4, 5, 6, 8]


@every_selector
def test_constant_scores_and_ten_rows_from_two_points(select):
    features = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0]], np.float32), 5, axis=0)
    picks = check(select(np.ones(10, np.float32), features, features[:1], 10), 10, np.ones(10, bool))
    if select in (SELECT[max_dist], SELECT[k_center], SELECT[lcmd]):
        assert picks[0] == 5, "the point that is not labelled comes first, its first row first"


@every_selector
def test_nothing_varies_at_all(select):
    picks = select(np.zeros(6, np.float32), np.zeros((6, 2), np.float32), np.zeros((0, 2), np.float32), 6)
    assert sorted(np.asarray(picks).tolist()) == list(range(6))


@every_selector
def test_padding_of_the_labelled_buffer_changes_nothing(select):
    scores, features, labelled = case()
    padded = np.concatenate([labelled, np.full((9, 3), np.nan, np.float32)])
    plain = select(scores, features, labelled, 8)
    np.testing.assert_array_equal(select(scores, features, padded, 8, None, np.arange(14) < 5), plain)


@every_selector
def test_rows_that_may_not_be_picked_change_nothing(select):
    if select is SELECT[sbal]:
        pytest.skip("its noise is drawn for the row")
    scores, features, labelled = case()
    far = np.concatenate([features, np.full((5, 3), 1e6, np.float32)])
    high = np.concatenate([scores, np.full(5, 1e6, np.float32)])
    np.testing.assert_array_equal(
        select(high, far, labelled, 8, np.arange(35) < 30), select(scores, features, labelled, 8)
    )


@every_selector
def test_permuting_the_pool_permutes_the_picks(select):
    if select is SELECT[sbal]:
        pytest.skip("its noise is drawn for the row")
    scores, features, labelled = case()
    order = np.random.default_rng(1).permutation(30)
    shuffled = np.asarray(select(scores[order], features[order], labelled, 8))
    np.testing.assert_array_equal(order[shuffled], select(scores, features, labelled, 8))


@every_selector
def test_jit_and_vmap_equal_a_loop(select):
    cases = [case(seed=seed) for seed in range(4)]
    rng = np.random.default_rng(0)
    available, mask = rng.random((4, 30)) < 0.6, rng.random((4, 5)) < 0.6
    stacked = (jnp.stack([jnp.asarray(c[i]) for c in cases]) for i in range(3))
    mapped = jax.jit(jax.vmap(lambda s, f, lf, a, m: select(s, f, lf, 5, a, m)))(*stacked, available, mask)
    for row in range(4):
        np.testing.assert_array_equal(mapped[row], select(*cases[row], 5, available[row], mask[row]))


@every_selector
def test_no_retrace_for_other_masks(select):
    scores, features, labelled = case()
    jitted = jax.jit(lambda s, f, lf, a, m: select(s, f, lf, 5, a, m))
    for n in (6, 20, 30):
        jitted(scores, features, labelled, np.arange(30) < n, np.arange(5) < n // 6)
    assert jitted._cache_size() == 1


@every_selector
@pytest.mark.parametrize("k", [0, 31, 2.0, "3"])
def test_refuses_k(select, k):
    with pytest.raises(ValueError, match="k must be"):
        select(*case(), k)


@every_selector
def test_refuses_k_beyond_what_is_available(select):
    with pytest.raises(ValueError, match="k must be between 1 and the 4 available rows, got 5"):
        select(*case(), 5, np.arange(30) < 4)


@every_selector
@pytest.mark.parametrize("available", [np.ones(29, bool), np.ones(30, int), np.ones((30, 1), bool)])
def test_refuses_masks(select, available):
    with pytest.raises(ValueError, match=r"available must be a boolean mask of shape \(30,\)"):
        select(*case(), 5, available)


@with_scores
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite(select, bad):
    scores, features, labelled = case()
    scores[3] = bad
    with pytest.raises(ValueError, match="row 3 has"):
        select(scores, features, labelled, 5)
    available = np.arange(30) != 3
    check(select(scores, features, labelled, 29, available), 29, available)
    inside = jax.jit(lambda s: select(s, features, labelled, 30))(scores)
    assert check(inside, 30, np.ones(30, bool))[-1] == 3, "inside jit: only when nothing else is left"


@with_features
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_features_that_are_not_finite(select, bad):
    scores, features, labelled = case()
    features[3, 1] = bad
    with pytest.raises(ValueError, match=r"features must be finite.* row 3 is not"):
        select(scores, features, labelled, 5)
    available = np.arange(30) != 3
    check(select(scores, features, labelled, 29, available), 29, available)
    inside = jax.jit(lambda f: select(scores, f, labelled, 30))(features)
    assert check(inside, 30, np.ones(30, bool))[-1] == 3
    with pytest.raises(ValueError, match=r"labelled.* row 0 is not"):
        select(scores, features, np.full((1, 3), bad, np.float32), 5, available)


@with_features
@pytest.mark.parametrize(
    ("features", "labelled", "mask", "message"),
    [
        (np.zeros(30), np.zeros((2, 1)), None, r"features must be \(N, d\)|features \(rows, h\)"),
        (np.zeros((30, 3)), np.zeros((2, 4)), None, "got"),
        (
            np.zeros((30, 3)),
            np.zeros((2, 3)),
            np.ones(3, bool),
            r"labelled_mask must be a boolean mask of shape \(2,\)",
        ),
    ],
)
def test_refuses_shapes(select, features, labelled, mask, message):
    with pytest.raises(ValueError, match=message):
        select(np.zeros(30), features, labelled, 5, None, mask)


@every_selector
def test_k_is_any_integer(select):
    scores, features, labelled = case()
    expected = np.asarray(select(scores, features, labelled, 3))
    for k in (np.array(3), np.int64(3), jnp.asarray(3)):
        np.testing.assert_array_equal(select(scores, features, labelled, k), expected)
    assert len(select(scores, features, labelled, True)) == 1
