"""Bounds and scores beyond the paper: in the right direction, in their ranges, equal to plain formulas in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from milb import Mixture, bounds

pytestmark = pytest.mark.slow

SIZES = [(3, 2, 1), (2, 3, 2), (4, 1, 5), (3, 2, 16), (2, 2, 20)]  # E, K, D: few, since each compiles
N_POINTS = 6


def chernoff_at(a):
    return functools.partial(bounds.entropy_lower_bound_chernoff, a=a)


ENTROPIES = {
    "kl": bounds.entropy_upper_bound_kl,
    "bhattacharyya": bounds.entropy_lower_bound_chernoff,
    "chernoff": chernoff_at(0.3),
}
SCORES = {
    "members": bounds.mi_lower_bound_members,
    "matched": bounds.mi_matched,
    "matched-gap": bounds.log_matched_gap,
    "pairwise": bounds.mi_pairwise,
}
first, *others = SIZES
every_size = pytest.mark.parametrize(
    "size", [first, *(pytest.param(size, marks=pytest.mark.exhaustive) for size in others)], ids=str
)
two_sizes = pytest.mark.parametrize("size", [SIZES[2], pytest.param(SIZES[3], marks=pytest.mark.exhaustive)], ids=str)
every_score = pytest.mark.parametrize("score", SCORES.values(), ids=SCORES)


def random_arrays(seed, size, n_points=N_POINTS, extreme=False):
    """Logits, means, variances and member weights in float64; extreme ones span 1e-12 .. 1e12 and e^-50."""
    n_members, n_components, n_dimensions = size
    rng = np.random.default_rng(seed)
    shape = (n_members, n_points, n_components, n_dimensions)
    spread = rng.choice([0.1, 1.0, 5.0], (1, n_points, 1, 1))
    logits, log_variances = rng.normal(size=shape[:-1]), rng.normal(size=shape)
    if extreme:
        logits = rng.choice([0.0, -25.0, -50.0], shape[:-1])
        log_variances = rng.uniform(np.log(1e-12), np.log(1e12), shape)
    return logits, spread * rng.normal(size=shape), np.exp(log_variances), rng.dirichlet(np.ones(n_members))


def random_members(seed, size, dtype=np.float32, **settings):
    *arrays, weights = (array.astype(dtype) for array in random_arrays(seed, size, **settings))
    return Mixture.from_logits(*arrays), weights


def plain_values(members, weights):
    """Everything by its formula, with arrays over all pairs (points, m, n, dimensions), in NumPy."""
    n_members, n_components = len(weights), members.n_components
    marginal = members.marginal(weights)
    log_b, means, variances = (np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(marginal))
    b, v_m, v_n = np.exp(log_b), variances[:, :, None], variances[:, None]
    squares = (means[:, :, None] - means[:, None]) ** 2
    same_member = np.kron(np.eye(n_members), np.ones((n_components, n_components))).astype(bool)
    entropy = (b * 0.5 * np.log(2 * np.pi * np.e * variances).sum(-1)).sum(-1)

    def mean_log(k):
        return (b * np.log((b[:, None] * k).sum(-1))).sum(-1)

    def chernoff(a):
        pooled = (1 - a) * v_m + a * v_n
        ratio = np.log(pooled) - (1 - a) * np.log(v_m) - a * np.log(v_n)
        return np.exp(-0.5 * (a * (1 - a) * squares / pooled + ratio).sum(-1))

    kl = 0.5 * ((v_m + squares) / v_n - 1 + np.log(v_n / v_m)).sum(-1)
    root_alpha = np.sqrt(b / np.repeat(weights, n_components))
    overlap = root_alpha[:, :, None] * root_alpha[:, None] * chernoff(0.5)
    rho = np.minimum(overlap.reshape(-1, n_members, n_components, n_members, n_components).sum((2, 4)), 1)
    others = np.where(np.eye(n_members, dtype=bool), 0, weights * rho).sum(-1)
    t = np.exp(-0.5 * (squares / (v_m + v_n) + np.log((v_m + v_n) / (2 * v_m))).sum(-1)) * b[:, None]
    own, foreign = ((t * mask).sum(-1) for mask in (same_member, ~same_member))
    mean_own = (weights[:, None] * bounds.entropy_lower_bound(members)).sum(0)
    return {
        "kl": entropy - mean_log(np.exp(-kl)),
        "bhattacharyya": entropy - mean_log(chernoff(0.5)),
        "chernoff": entropy - mean_log(chernoff(0.3)),
        "members": -(weights * np.log(weights + others)).sum(-1),
        "pairwise": -(weights * np.log(others / (1 - weights))).sum(-1),
        "matched": bounds.entropy_lower_bound(marginal) - mean_own,
        "matched-gap": np.log((b * np.log1p(foreign / own)).sum(-1)),
    }


@two_sizes
def test_plain_formulas_in_float64(size):
    with jax.enable_x64(True):
        members, weights = random_members(0, size, np.float64)
        expected = plain_values(members, weights)
        for name, score in SCORES.items():
            np.testing.assert_allclose(score(members, weights), expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
        for name, bound in ENTROPIES.items():
            value = bound(members.marginal(weights))
            np.testing.assert_allclose(value, expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
    members, weights = random_members(0, size)
    for name, score in SCORES.items():
        np.testing.assert_allclose(score(members, weights), expected[name], rtol=2e-5, atol=2e-5, err_msg=name)
    for name, bound in ENTROPIES.items():
        np.testing.assert_allclose(bound(members.marginal(weights)), expected[name], rtol=2e-5, err_msg=name)


@jax.jit
def sampled(members, weights):
    """Entropy of the marginal, its standard error, and the mutual information, all by Monte Carlo."""
    marginal, n_samples = members.marginal(weights), 2_048
    surprise = -marginal.log_prob(marginal.sample(jax.random.key(0), (n_samples,)))
    information = bounds.mi_monte_carlo(jax.random.key(1), members, n_samples, weights)
    return surprise.mean(0), surprise.std(0) / np.sqrt(n_samples), information


@every_size
@pytest.mark.parametrize("extreme", [False, True])
def test_directions_ranges_and_orderings(size, extreme):
    members, weights = random_members(1, size, extreme=extreme)
    marginal = members.marginal(weights)
    truth, error, information = sampled(members, weights)
    slack = 5 * error + 2e-5 * (1 + np.abs(truth))
    upper = bounds.entropy_upper_bound_kl(marginal)
    assert (upper >= truth - slack).all()
    assert (upper <= bounds.entropy_upper_bound(marginal) + 2e-6 * (1 + np.abs(upper))).all()
    for name in ("bhattacharyya", "chernoff"):
        assert (ENTROPIES[name](marginal) <= truth + slack).all()

    entropy = -(weights * np.log(weights)).sum()
    below = bounds.mi_lower_bound_members(members, weights)
    assert (below <= information.estimate + 5 * information.standard_error + 1e-4).all()
    assert (below >= 0).all() and (below <= entropy + 1e-6).all()
    assert (bounds.mi_matched(members, weights) <= entropy + 1e-6).all()
    pairwise = bounds.mi_pairwise(members, weights)
    assert np.isfinite(pairwise).all() and (pairwise >= 0).all()


@two_sizes
def test_moving_reordering_and_scaling(size):
    with jax.enable_x64(True):
        members, weights = random_members(2, size, np.float64)
        rng = np.random.default_rng(2)
        order, inner = rng.permutation(size[0]), rng.permutation(size[1])
        shuffled = jax.tree.map(lambda leaf: leaf[order][:, :, inner], members)
        shift, log_scale = rng.normal(size=size[2]), 3 * rng.normal(size=size[2])
        scale = np.exp(log_scale)[None, None, None]
        moved = Mixture(
            members.log_weights, members.means * scale + shift[None, None, None], members.variances * scale**2
        )
        for score in SCORES.values():
            expected = score(members, weights)
            np.testing.assert_allclose(score(shuffled, weights[order]), expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(score(moved, weights), expected, rtol=1e-9, atol=1e-9)
        for bound in ENTROPIES.values():
            expected = bound(members.marginal(weights)) + log_scale.sum()
            np.testing.assert_allclose(bound(moved.marginal(weights)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
def test_one_gaussian_has_its_own_entropy(a):
    gaussian = Mixture(jnp.zeros(1), jnp.ones((1, 3)), jnp.array([[0.3, 2.0, 5.0]]))
    entropy = 0.5 * np.log((2 * np.pi * np.e) ** 3 * 3.0)
    assert bounds.entropy_upper_bound_kl(gaussian) == pytest.approx(entropy, rel=1e-6)
    assert bounds.entropy_lower_bound_chernoff(gaussian, a) == pytest.approx(entropy, rel=1e-6)


@pytest.mark.parametrize("distance", [0.5, 3.0, 30.0])
def test_two_gaussians_by_hand(distance):
    """Means d apart, variance 1, equal weights: Bhattacharyya d^2 / 8, KL d^2 / 2, Huber's overlap e^{-d^2 / 4}."""
    means = jnp.array([0.0, distance])[:, None, None]
    members = Mixture(jnp.zeros((2, 1)), means, jnp.ones((2, 1, 1)))
    overlap, alone = distance**2 / 8, 0.5 * np.log(2 * np.pi * np.e)
    assert bounds.mi_pairwise(members) == pytest.approx(overlap, rel=1e-6)
    capped = np.log(2) - np.log1p(np.exp(-overlap))
    assert bounds.mi_lower_bound_members(members) == pytest.approx(capped, abs=1e-6)
    assert bounds.entropy_lower_bound_chernoff(members.marginal()) == pytest.approx(alone + capped, rel=1e-6)
    upper = alone + np.log(2) - np.log1p(np.exp(-4 * overlap))
    assert bounds.entropy_upper_bound_kl(members.marginal()) == pytest.approx(upper, rel=1e-6)
    assert bounds.mi_matched(members) == pytest.approx(np.log(2) - np.log1p(np.exp(-2 * overlap)), abs=1e-6)
    gap = -2 * overlap if distance == 30 else np.log(np.log1p(np.exp(-2 * overlap)))
    assert bounds.log_matched_gap(members) == pytest.approx(gap, rel=1e-5)


@every_size
def test_identical_members_know_nothing(size):
    members, weights = random_members(3, size)
    same = jax.tree.map(lambda leaf: jnp.repeat(leaf[:1], len(leaf), axis=0), members)
    for score in (bounds.mi_lower_bound_members, bounds.mi_pairwise, bounds.mi_matched):
        np.testing.assert_allclose(score(same, weights), 0, atol=2e-6)


def test_one_member_has_nobody_to_disagree_with():
    one = jax.tree.map(lambda leaf: leaf[:1], random_members(4, SIZES[0])[0])
    for score in (bounds.mi_lower_bound_members, bounds.mi_pairwise, bounds.mi_matched):
        value, gradient = jax.value_and_grad(lambda members, score=score: score(members).sum())(one)
        assert value == 0 and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    assert np.isneginf(bounds.log_matched_gap(one)).all()


@every_score
def test_members_of_weight_zero_are_as_absent(score):
    members, _ = random_members(5, SIZES[0])
    two = jax.tree.map(lambda leaf: leaf[:2], members)
    weights = np.array([0.25, 0.75], np.float32)
    np.testing.assert_allclose(score(members, np.append(weights, 0)), score(two, weights), rtol=1e-5, atol=1e-6)


@every_score
def test_members_far_apart_keep_their_ranks(score):
    """Twice as far is more, however far: nothing underflows, and no two points tie."""
    if score in (bounds.mi_lower_bound_members, bounds.mi_matched):
        pytest.skip("bounded by H(w)")
    distance = np.geomspace(10, 1e12, 40, dtype=np.float32)
    means = np.stack([0 * distance, distance])[:, :, None, None] * np.ones((1, 1, 1, 20), np.float32)
    members = Mixture(jnp.zeros((2, 40, 1)), jnp.asarray(means), jnp.ones_like(means))
    values = np.asarray(score(members)) * (-1 if score is bounds.log_matched_gap else 1)
    assert np.isfinite(values).all() and (np.diff(values) > 0).all()


# The others are these in disguise, or simpler; gradients take seconds to compile.
WITH_GRADIENTS = {
    "members": bounds.mi_lower_bound_members,
    "matched-gap": bounds.log_matched_gap,
    "kl": lambda members, weights: bounds.entropy_upper_bound_kl(members.marginal(weights)),
    "chernoff": lambda members, weights: bounds.entropy_lower_bound_chernoff(members.marginal(weights), 0.3),
}
every_gradient = pytest.mark.parametrize(
    "function",
    [
        pytest.param(function, id=name, marks=() if name == "members" else pytest.mark.exhaustive)
        for name, function in WITH_GRADIENTS.items()
    ],
)


@every_gradient
def test_extreme_values_and_their_gradients_are_finite(function):
    members, weights = random_members(6, SIZES[3], extreme=True)
    value, gradient = jax.value_and_grad(lambda members: function(members, weights).sum())(members)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@two_sizes
def test_float32_holds_extreme_variances_and_weights(size):
    with jax.enable_x64(True):
        members, weights = random_members(7, size, np.float64, extreme=True)
        expected = {name: np.asarray(score(members, weights)) for name, score in SCORES.items()}
    members, weights = random_members(7, size, extreme=True)
    for name, score in SCORES.items():
        np.testing.assert_allclose(score(members, weights), expected[name], rtol=1e-4, atol=1e-4, err_msg=name)


@every_gradient
def test_gradients_equal_finite_differences(function):
    with jax.enable_x64(True):
        members, weights = random_members(8, SIZES[3], np.float64)

        def total(means, variances):
            return function(Mixture(members.log_weights, jnp.asarray(means), jnp.asarray(variances)), weights).sum()

        check_grads(total, (members.means, members.variances), order=1, modes=["rev"])


@every_score
def test_any_leading_axes_jit_and_vmap(score):
    members, _ = random_members(9, SIZES[0])
    expected = score(members)
    folded = jax.tree.map(lambda leaf: leaf.reshape(len(leaf), 3, 2, *leaf.shape[2:]), members)
    assert score(folded).shape == (3, 2)
    np.testing.assert_allclose(score(folded).ravel(), expected, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.vmap(score, in_axes=1))(members), expected, rtol=1e-5, atol=1e-5)
    assert score(jax.tree.map(lambda leaf: leaf[:, :0], members)).shape == (0,)


@every_score
def test_refuses_wrong_members(score):
    members, _ = random_members(0, SIZES[0])
    with pytest.raises(ValueError, match="shape"):
        score(members, np.ones(2, np.float32) / 2)
    with pytest.raises(ValueError, match="axis 0"):
        score(jax.tree.map(lambda leaf: leaf[0, 0], members))


@pytest.mark.parametrize("a", [-0.1, 1.1, np.nan])
def test_refuses_wrong_a(a):
    with pytest.raises(ValueError, match="a must be between 0 and 1"):
        bounds.entropy_lower_bound_chernoff(random_members(0, SIZES[0])[0], a)


def test_no_array_over_pairs_and_dimensions():
    arrays = [jax.ShapeDtypeStruct((8, 2_000, 8, *tail), jnp.float32) for tail in ((), (20,), (20,))]
    for score in (bounds.mi_pairwise, bounds.log_matched_gap):
        compiled = jax.jit(lambda *arrays, score=score: score(Mixture(*arrays))).lower(*arrays).compile()
        assert compiled.memory_analysis().temp_size_in_bytes < 2_000 * 64 * 64 * 20 * 4 / 10
