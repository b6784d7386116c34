"""Bounds: equal to references, never above the truth, and moved by changes of units as entropies must be."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads
from scipy import integrate, stats

from milb import Mixture, bounds

FAMILIES = ["multimodal", "double_well", "ternary", "single", "sharp", "agree"]
SLACK = 0.5 * (1 - np.log(2))  # of Huber's lower bound, a dimension


def members_of(reference, family, dtype=np.float32):
    data = reference("acquisition")
    return Mixture.from_logits(
        *(data[f"mix_{family}/{name}"].astype(dtype) for name in ("logits", "means", "variances"))
    )


def random_members(seed, n_members=3, n_points=5, n_components=2, n_dimensions=2, spread=1.0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shape = (n_members, n_points, n_components, n_dimensions)
    return Mixture.from_logits(
        rng.normal(size=shape[:-1]).astype(dtype),
        (spread * rng.normal(size=shape)).astype(dtype),
        np.exp(rng.normal(size=shape)).astype(dtype),
    )


def naive_log_gap(members, member_weights=None):
    """The formula of the docstring, in NumPy float64."""
    log_weights, means, variances = (
        np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(members.marginal(member_weights))
    )
    summed = variances[..., :, None, :] + variances[..., None, :, :]
    delta = means[..., :, None, :] - means[..., None, :, :]
    log_t = -0.5 * (delta**2 / summed + np.log(summed)).sum(-1)
    log_self = np.diagonal(log_t, axis1=-2, axis2=-1)
    off = log_weights[..., None, :] + log_t
    index = np.arange(log_weights.shape[-1])
    off[..., index, index] = -np.inf
    log_ratio = np.logaddexp.reduce(off, axis=-1) - log_weights - log_self
    return np.logaddexp.reduce(log_weights + np.log(np.logaddexp(0, log_ratio)), axis=-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_reference_values(reference, family):
    data = reference("acquisition")
    members = members_of(reference, family)
    computed = {
        "entropy_lower": bounds.entropy_lower_bound(members.marginal()),
        "entropy_upper_per_member": bounds.entropy_upper_bound(members),
        "mi_lb": bounds.mi_lower_bound(members),
    }
    for name, value in computed.items():
        expected = data[f"mix_{family}/{name}"]
        assert (np.abs(np.asarray(value) - expected) / (1 + np.abs(expected))).max() < 2e-5, name


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_identity_in_float64(reference, family):
    with jax.enable_x64(True):
        members = members_of(reference, family, np.float64)
        rng = np.random.default_rng(0)
        for weights in (None, rng.dirichlet(np.ones(len(members.means)))):
            upper = bounds.entropy_upper_bound(members)
            mean_upper = upper.mean(0) if weights is None else (weights[:, None] * upper).sum(0)
            difference = bounds.entropy_lower_bound(members.marginal(weights)) - mean_upper
            np.testing.assert_allclose(bounds.mi_lower_bound(members, weights), difference, rtol=0, atol=1e-12)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("n_members", "n_components", "n_dimensions"), [(1, 1, 3), (3, 2, 7), (1, 2, 1), (1, 5, 4), (2, 1, 1), (8, 8, 20)]
)
def test_log_gap_equals_the_naive_formula(n_members, n_components, n_dimensions):
    weights = np.random.default_rng(2).dirichlet(np.ones(n_members)).astype(np.float32)
    for member_weights, spread in ((None, 1), (weights, 10)):
        members = random_members(1, n_members, 7, n_components, n_dimensions, spread)
        with np.errstate(divide="ignore"):
            expected = naive_log_gap(members, member_weights)
        np.testing.assert_allclose(bounds.log_overlap_gap(members, member_weights), expected, rtol=3e-6, atol=3e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize("n_points", [1, 256, 257, 255, 700])
def test_blocks_change_nothing(n_points):
    members = random_members(0, n_points=n_points)
    together = bounds.log_overlap_gap(members)
    assert together.shape == (n_points,)
    last = jax.tree.map(lambda leaf: leaf[:, -1:], members)
    np.testing.assert_allclose(together[-1:], bounds.log_overlap_gap(last), rtol=1e-6)


def test_any_leading_axes():
    members = random_members(0, n_points=6)
    folded = jax.tree.map(lambda leaf: leaf.reshape(3, 2, 3, *leaf.shape[2:]), members)
    single = jax.tree.map(lambda leaf: leaf[:, 0], members)
    for bound in (bounds.mi_lower_bound, bounds.log_overlap_gap):
        np.testing.assert_allclose(bound(folded).reshape(-1), bound(members), rtol=1e-6)
        assert bound(single).shape == ()
    empty = jax.tree.map(lambda leaf: leaf[:, :0], members)
    assert bounds.mi_lower_bound(empty).shape == (0,)


def test_jit_and_vmap():
    members = random_members(0)
    expected = bounds.mi_lower_bound(members)
    np.testing.assert_allclose(jax.jit(bounds.mi_lower_bound)(members), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(bounds.mi_lower_bound, in_axes=1)(members), expected, rtol=1e-5, atol=1e-6)


def test_one_gaussian_has_closed_forms():
    with jax.enable_x64(True):
        variances = np.array([[0.3, 2.0, 5.0]])
        gaussian = Mixture(jnp.zeros(1), jnp.ones((1, 3)), jnp.asarray(variances))
        entropy = 0.5 * np.log((2 * np.pi * np.e) ** 3 * variances.prod())
        assert bounds.entropy_upper_bound(gaussian) == pytest.approx(entropy, rel=1e-14)
        assert bounds.entropy_lower_bound(gaussian) == pytest.approx(entropy - 3 * SLACK, rel=1e-14)


@pytest.mark.parametrize("n_components", [1, 4])
def test_disjoint_components_reach_the_maximum(n_components):
    n_members, n_dimensions = 8, 20
    means = 1e3 * np.arange(n_members * n_components, dtype=np.float32).reshape(n_members, n_components, 1)
    means = means * np.ones((1, 1, n_dimensions), np.float32)
    members = Mixture.from_logits(np.zeros(means.shape[:-1], np.float32), means, np.ones_like(means))
    assert bounds.mi_lower_bound(members) == pytest.approx(np.log(8) - n_dimensions * SLACK, abs=1e-6)
    assert bounds.mi_lower_bound(members) == pytest.approx(-0.98909, abs=1e-5)
    assert np.isfinite(bounds.log_overlap_gap(members)) and bounds.log_overlap_gap(members) < -1e5


def test_identical_single_gaussians_carry_no_information():
    member = random_members(3, n_members=1, n_components=1)
    members = jax.tree.map(lambda leaf: jnp.repeat(leaf, 5, axis=0), member)
    np.testing.assert_allclose(bounds.mi_lower_bound(members), -2 * SLACK, atol=2e-6)
    np.testing.assert_allclose(bounds.mi_lower_bound(member), -2 * SLACK, atol=2e-6)
    assert np.isneginf(bounds.log_overlap_gap(member)).all()


def test_members_of_weight_zero_are_as_absent():
    members = random_members(4, n_members=3)
    two = jax.tree.map(lambda leaf: leaf[:2], members)
    weights = np.array([0.25, 0.75], np.float32)
    for bound in (bounds.mi_lower_bound, bounds.log_overlap_gap):
        np.testing.assert_allclose(bound(members, np.append(weights, 0)), bound(two, weights), rtol=1e-5, atol=1e-6)


seeds = st.integers(0, 2**31 - 1)
sizes = st.sampled_from([(1, 3, 2), (3, 1, 4), (4, 3, 2)])  # few shapes: each compiles once


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seeds, sizes, st.sampled_from([0.1, 1.0, 5.0]))
def test_invariances(seed, size, spread):
    n_members, n_components, n_dimensions = size
    with jax.enable_x64(True):
        members = random_members(seed, n_members, 3, n_components, n_dimensions, spread, np.float64)
        rng = np.random.default_rng(seed)
        order, inner = rng.permutation(n_members), rng.permutation(n_components)
        shuffled = jax.tree.map(lambda leaf: leaf[order][:, :, inner], members)
        shift, scale = rng.normal(size=n_dimensions), np.exp(3 * rng.normal(size=n_dimensions))
        moved = Mixture(
            members.log_weights, members.means * scale[None, None, None] + shift[None, None, None],
            members.variances * scale[None, None, None] ** 2,
        )  # fmt: skip
        for bound in (bounds.mi_lower_bound, bounds.log_overlap_gap):
            expected = bound(members)
            np.testing.assert_allclose(bound(shuffled), expected, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(bound(moved), expected, rtol=1e-9, atol=1e-9)
        for bound in (bounds.entropy_lower_bound, bounds.entropy_upper_bound):
            np.testing.assert_allclose(bound(moved), bound(members) + np.log(scale).sum(), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from([1, 4]), st.sampled_from([0.1, 1.0, 5.0]))
def test_bounds_enclose_the_entropy_in_one_dimension(seed, n_components, spread):
    mixture = random_members(seed, 1, 1, n_components, 1, spread)
    log_weights, means, variances = (np.asarray(leaf, np.float64)[0, 0] for leaf in jax.tree.leaves(mixture))
    weights, means, stds = np.exp(log_weights), means[:, 0], np.sqrt(variances[:, 0])
    reach = 12 * stds.max()
    grid = np.linspace(means.min() - reach, means.max() + reach, 40_001)
    density = (weights * stats.norm.pdf(grid[:, None], means, stds)).sum(1)
    entropy = integrate.simpson(-density * np.log(np.maximum(density, 1e-300)), x=grid)
    assert bounds.entropy_lower_bound(mixture)[0, 0] <= entropy + 1e-4
    assert bounds.entropy_upper_bound(mixture)[0, 0] >= entropy - 1e-4


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(seeds, sizes, st.sampled_from([0.1, 1.0, 5.0]))
def test_never_above_monte_carlo(seed, size, spread):
    n_members, n_components, n_dimensions = size
    members = random_members(seed, n_members, 4, n_components, n_dimensions, spread)
    weights = np.random.default_rng(seed).dirichlet(np.ones(n_members)).astype(np.float32)
    truth = bounds.mi_monte_carlo(jax.random.key(seed), members, 2_048, weights)
    assert (bounds.mi_lower_bound(members, weights) <= truth.estimate + 5 * truth.standard_error + 1e-4).all()


def test_monte_carlo_meets_quadrature_and_its_own_error():
    members = random_members(7, 3, 1, 2, 1, spread=2.0)
    log_weights, means, variances = (np.asarray(leaf, np.float64)[:, 0] for leaf in jax.tree.leaves(members))
    grid = np.linspace(-40, 40, 80_001)
    pdfs = (np.exp(log_weights)[..., None] * stats.norm.pdf(grid, means, np.sqrt(variances))).sum(1)
    marginal = np.maximum(pdfs.mean(0), 1e-300)
    exact = np.mean([integrate.simpson(p * np.log(np.maximum(p, 1e-300) / marginal), x=grid) for p in pdfs])
    keys = jax.random.split(jax.random.key(0), 100)
    estimates = jax.vmap(lambda key: bounds.mi_monte_carlo(key, members, 512))(keys)
    z = (np.asarray(estimates.estimate)[:, 0] - exact) / np.asarray(estimates.standard_error)[:, 0]
    assert abs(z.mean()) < 0.4 and 0.7 < z.std() < 1.3


def test_monte_carlo_is_zero_for_one_member_and_log_e_for_disjoint_ones():
    one = random_members(0, n_members=1)
    np.testing.assert_allclose(bounds.mi_monte_carlo(jax.random.key(0), one, 64).estimate, 0, atol=1e-6)
    means = 1e3 * np.arange(4, dtype=np.float32)[:, None, None]
    disjoint = Mixture(jnp.zeros((4, 1)), jnp.asarray(means), jnp.ones((4, 1, 1)))
    assert bounds.mi_monte_carlo(jax.random.key(0), disjoint, 64).estimate == pytest.approx(np.log(4), rel=1e-5)


def test_monte_carlo_takes_any_number_of_draws(monkeypatch):
    asked = []

    def record(*arguments):
        asked.append(arguments[-2:])
        return bounds.MonteCarlo(jnp.zeros(5), jnp.zeros(5))

    monkeypatch.setattr(bounds.reference, "_monte_carlo", record)
    for n, block_size in ((100, 256), (257, 256), (1_000, 256), (7, 2)):
        bounds.mi_monte_carlo(jax.random.key(0), random_members(0), n, block_size=block_size)
    assert asked == [(100, 100), (258, 129), (1_000, 250), (8, 2)]
    monkeypatch.undo()
    members = random_members(0)
    few, many = (bounds.mi_monte_carlo(jax.random.key(0), members, n) for n in (100, 1_000))
    assert (np.abs(few.estimate - many.estimate) < 5 * few.standard_error + 1e-6).all()
    assert (np.asarray(many.standard_error) < np.asarray(few.standard_error)).mean() > 0.8


@pytest.mark.parametrize("n_samples", [0, 1])
def test_monte_carlo_refuses(n_samples):
    with pytest.raises(ValueError, match="n_samples"):
        bounds.mi_monte_carlo(jax.random.key(0), random_members(0), n_samples)


@pytest.mark.parametrize("part", ["log_weights", "means", "variances"])
def test_nan_stays_nan(part):
    """A gap of NaN is no gap of 0, which would be the best score there is."""
    members = random_members(0)
    spoilt = {name: np.array(getattr(members, name)) for name in ("log_weights", "means", "variances")}
    spoilt[part][0, 2, 0] = np.nan
    members = Mixture(*map(jnp.asarray, spoilt.values()))
    others = ("mi_lower_bound_maximum", "mi_monte_carlo", "entropy_quadrature", "mi_quadrature")
    names = {name for name in bounds.__all__ if name.startswith(("log_", "mi_", "entropy_"))}.difference(others)
    if part == "means":
        names.remove("entropy_upper_bound")  # which does not look at them
    for name in names:
        more = {"self_weight": 0.5} if name in ("mi_disagreement", "log_disagreement_gap") else {}
        values = np.asarray(jax.jit(partial(getattr(bounds, name), **more))(members))
        values = values if values.ndim == 1 else values[0]  # entropies: of the first member
        assert np.isnan(values[2]) and np.isfinite(np.delete(values, 2)).all(), name


def test_ranks_where_the_value_saturates():
    """Two pairs of Gaussians so far apart that float32 MI-LB is equal, yet one pair is farther."""
    means = np.array([[[0.0]], [[0.0]], [[20.0]], [[25.0]]], np.float32).reshape(2, 2, 1, 1)
    members = Mixture(jnp.zeros((2, 2, 1)), jnp.asarray(means), jnp.ones((2, 2, 1, 1)))
    value, log_gap = bounds.mi_lower_bound(members), bounds.log_overlap_gap(members)
    assert value[0] == value[1] and log_gap[1] < log_gap[0]
    np.testing.assert_allclose(log_gap, [-(20**2) / 4, -(25**2) / 4], rtol=1e-6)


EXTREMES = Mixture(
    jnp.log(jnp.array([[1 - np.exp(-200.0), np.exp(-200.0)], [0.5, 0.5]], jnp.float32)),
    jnp.array([[[0.0, 1.0], [1e-6, 1.0]], [[5.0, 1.0], [0.0, 1e4]]], jnp.float32),
    jnp.array([[[1e-12, 1.0], [1.0, 1e-12]], [[1e-12, 1e-12], [1e4, 1.0]]], jnp.float32),
)


@pytest.mark.parametrize(
    "bound", [bounds.mi_lower_bound, bounds.log_overlap_gap, lambda m: bounds.entropy_lower_bound(m.marginal())]
)
def test_extreme_values_and_gradients_are_finite(bound):
    value, gradient = jax.value_and_grad(bound)(EXTREMES)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_units_do_not_matter_in_float32(unit):
    members = random_members(5, 4, 6, 3, 20, spread=2.0)
    scaled = Mixture(members.log_weights, unit * members.means, unit**2 * members.variances)
    np.testing.assert_allclose(bounds.log_overlap_gap(scaled), bounds.log_overlap_gap(members), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bound", [bounds.mi_lower_bound, bounds.log_overlap_gap])
def test_gradients_equal_finite_differences(bound):
    with jax.enable_x64(True):
        members = random_members(6, 3, 2, 2, 2, dtype=np.float64)

        def total(means, variances):
            return bound(Mixture(members.log_weights, jnp.asarray(means), jnp.asarray(variances))).sum()

        check_grads(total, (members.means, members.variances), order=1, modes=["rev"])


def test_no_array_over_pairs_and_dimensions():
    arrays = jax.tree.leaves(random_members(0, 8, 2_000, 8, 20))
    compiled = jax.jit(lambda *arrays: bounds.log_overlap_gap(Mixture(*arrays))).lower(*arrays).compile()
    pairs_and_dimensions = 2_000 * 64 * 64 * 20 * 4
    assert compiled.memory_analysis().temp_size_in_bytes < pairs_and_dimensions / 10


def monte_carlo(members, member_weights=None):
    return bounds.mi_monte_carlo(jax.random.key(0), members, 4, member_weights)


@pytest.mark.parametrize("bound", [bounds.mi_lower_bound, bounds.log_overlap_gap, monte_carlo])
def test_refuses_wrong_members(bound):
    members = random_members(0)
    with pytest.raises(ValueError, match="shape"):
        bound(members, member_weights=np.ones(2, np.float32) / 2)
    with pytest.raises(ValueError, match="axis 0"):
        bound(jax.tree.map(lambda leaf: leaf[0, 0], members))


@pytest.mark.parametrize(("few", "many"), [(1e6, 1e-8), (1e-8, 1e6), (1e12, 1e-12), (1e-12, 1e12)])
def test_lopsided_variances_in_float32(few, many):
    """One component of another scale than all others: products of variances must not leave float32."""
    rng = np.random.default_rng(0)
    variances = np.full((4, 1, 4, 7), many)
    variances[0, 0, 0] = few
    means = rng.normal(size=variances.shape)
    logits = np.zeros(variances.shape[:-1])
    in_float32 = Mixture.from_logits(*(array.astype(np.float32) for array in (logits, means, variances)))
    with jax.enable_x64(True):
        in_float64 = Mixture.from_logits(logits, means, variances)
        expected = [np.asarray(bounds.log_overlap_gap(in_float64)), np.asarray(bounds.entropy_lower_bound(in_float64))]
    np.testing.assert_allclose(bounds.log_overlap_gap(in_float32), expected[0], rtol=1e-4)
    np.testing.assert_allclose(bounds.entropy_lower_bound(in_float32), expected[1], rtol=1e-4)


def test_a_distant_component_rounds_nobody_else():
    near = Mixture(jnp.log(jnp.full((1, 3), 1 / 3)), jnp.array([[[0.0], [1.0], [2.0]]]), jnp.ones((1, 3, 1)))
    far = Mixture(
        jnp.append(near.log_weights, jnp.full((1, 1), -jnp.inf), axis=1),
        jnp.append(near.means, jnp.full((1, 1, 1), 1e9), axis=1),
        jnp.ones((1, 4, 1)),
    )
    np.testing.assert_allclose(bounds.log_overlap_gap(far), bounds.log_overlap_gap(near), rtol=1e-5)


def test_integers_are_numbers_too():
    logits, means, variances = np.zeros((2, 3)), np.array([[[0], [5], [9]], [[1], [5], [30]]]), np.ones((2, 3, 1), int)
    whole = Mixture.from_logits(logits, means, variances)
    real = Mixture.from_logits(logits, means.astype(np.float32), variances.astype(np.float32))
    assert bounds.mi_lower_bound(whole) == bounds.mi_lower_bound(real)
    np.testing.assert_array_equal(whole.marginal(np.array([0.5, 0.5])).log_weights, real.marginal().log_weights)
    with pytest.raises(ValueError, match="real numbers"):
        Mixture.from_logits(logits, means + 1j, variances)


def test_monte_carlo_ignores_members_of_weight_zero():
    means = np.array([0.0, 1e14], np.float32).reshape(2, 1, 1)
    members = Mixture(jnp.zeros((2, 1)), jnp.asarray(means), jnp.full((2, 1, 1), 1e-12))
    estimate = bounds.mi_monte_carlo(jax.random.key(0), members, 64, np.array([1.0, 0.0], np.float32))
    np.testing.assert_allclose([estimate.estimate, estimate.standard_error], 0, atol=1e-6)
