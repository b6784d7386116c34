"""Quadrature in one dimension: closed forms, Monte Carlo, widths of any ratio; and bounds against it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from milb import FullMixture, Mixture, bounds

ENTROPY = 0.5 * np.log(2 * np.pi * np.e)  # of a standard normal


def random_members(seed, n_members=3, n_points=6, n_components=2, log_std_range=1.0):
    rng = np.random.default_rng(seed)
    shape = (n_members, n_points, n_components, 1)
    return Mixture.from_logits(
        rng.normal(size=shape[:-1]).astype(np.float32),
        (2 * rng.normal(size=shape)).astype(np.float32),
        np.exp(2 * rng.uniform(-log_std_range, log_std_range, shape)).astype(np.float32),
    )


@pytest.mark.parametrize("std", [1e-6, 1.0, 1e6])
def test_one_gaussian(std):
    gaussian = Mixture(jnp.zeros(1), jnp.full((1, 1), 3.0), jnp.full((1, 1), std**2, jnp.float32))
    assert bounds.entropy_quadrature(gaussian) == pytest.approx(ENTROPY + np.log(std), abs=1e-6)
    full = FullMixture(gaussian.log_weights, gaussian.means, jnp.full((1, 1, 1), std))
    assert bounds.entropy_quadrature(full) == pytest.approx(ENTROPY + np.log(std), abs=1e-6)


def test_disjoint_components_and_members():
    """Entropies of components and of their weights add up, whatever the ratio of the widths."""
    stds = np.array([1e-6, 1.0, 1e6], np.float32)
    means = np.array([-100.0, 0.0, 1e9], np.float32)
    weights = np.array([0.2, 0.3, 0.5], np.float32)
    mixture = Mixture(jnp.log(weights), jnp.asarray(means)[:, None], jnp.asarray(stds**2)[:, None])
    of_weights = stats.entropy(weights)
    expected = of_weights + ENTROPY + weights @ np.log(stds)
    assert bounds.entropy_quadrature(mixture) == pytest.approx(expected, abs=1e-5)
    members = jax.tree.map(lambda leaf: leaf[:, None], mixture)
    members = Mixture(jnp.zeros((3, 1)), members.means, members.variances)
    assert bounds.mi_quadrature(members, weights) == pytest.approx(of_weights, abs=1e-6)
    assert bounds.mi_quadrature(members, np.array([1.0, 0.0, 0.0], np.float32)) == pytest.approx(0, abs=1e-9)


def test_narrow_within_wide_against_a_fine_grid():
    mixture = Mixture(jnp.log(jnp.array([0.3, 0.7])), jnp.array([[0.4], [0.0]]), jnp.array([[1e-4], [1.0]]))
    weights, means, stds = np.exp(np.asarray(mixture.log_weights, float)), np.array([0.4, 0.0]), np.array([1e-2, 1.0])
    grid = np.linspace(-12, 12, 2_400_001)
    p = (weights * stats.norm.pdf(grid[:, None], means, stds)).sum(1)
    expected = np.trapezoid(-p * np.log(np.maximum(p, 1e-300)), grid)
    assert bounds.entropy_quadrature(mixture) == pytest.approx(expected, abs=1e-6)


def test_leading_axes_and_the_identity_of_mi():
    members = random_members(0)
    weights = np.array([0.5, 0.3, 0.2], np.float32)
    information = bounds.mi_quadrature(members, weights)
    assert information.shape == (6,)
    difference = bounds.entropy_quadrature(members.marginal(weights))
    difference = difference - (weights[:, None] * bounds.entropy_quadrature(members)).sum(0)
    np.testing.assert_allclose(information, difference, atol=1e-6)
    folded = jax.tree.map(lambda leaf: leaf.reshape(3, 2, 3, *leaf.shape[2:]), members)
    np.testing.assert_allclose(bounds.mi_quadrature(folded, weights), information.reshape(2, 3), rtol=1e-12)


def test_nodes_integrate_densities_and_squares():
    mixture = random_members(1).marginal()
    y, weights = bounds.quadrature_nodes(mixture)
    density = np.exp(np.asarray(mixture.log_prob(np.moveaxis(y, -1, 0)[..., None].astype(np.float32)), float)).T
    np.testing.assert_allclose((weights * density).sum(-1), 1, rtol=1e-4)
    second = (weights * density * y**2).sum(-1)
    np.testing.assert_allclose(second, mixture.variance()[:, 0] + mixture.mean()[:, 0] ** 2, rtol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("log_std_range", [0.5, 13.8])
def test_bounds_enclose_what_quadrature_finds(log_std_range):
    """Without the error of sampling, which hides a bound that is wrong by a little."""
    with jax.enable_x64(True):
        members = random_members(2, n_points=100, log_std_range=log_std_range)
        members = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), members)
        marginal = members.marginal()
        entropy, information = bounds.entropy_quadrature(marginal), bounds.mi_quadrature(members)
        for lower in (bounds.entropy_lower_bound, bounds.entropy_lower_bound_chernoff):
            assert (lower(marginal) <= entropy + 1e-5).all()
        for upper in (
            bounds.entropy_upper_bound,
            bounds.entropy_upper_bound_kl,
            bounds.entropy_upper_bound_moments,
        ):
            assert (upper(marginal) >= entropy - 1e-5).all()
        for lower in (bounds.mi_lower_bound, bounds.mi_lower_bound_members, bounds.mi_certificate):
            assert (lower(members) <= information + 1e-5).all()
        assert (bounds.mi_upper_bound(members) >= information - 1e-5).all()


@pytest.mark.exhaustive
def test_monte_carlo_agrees():
    members = random_members(3)
    estimate = bounds.mi_monte_carlo(jax.random.key(0), members, 4_096)
    assert (np.abs(estimate.estimate - bounds.mi_quadrature(members)) < 5 * estimate.standard_error + 1e-6).all()


def test_refuses_two_dimensions_no_variance_and_what_are_no_weights():
    two = Mixture(jnp.zeros((2, 1)), jnp.zeros((2, 1, 2)), jnp.ones((2, 1, 2)))
    for reference in (bounds.entropy_quadrature, bounds.mi_quadrature, bounds.quadrature_nodes):
        with pytest.raises(ValueError, match="one dimension, got D = 2"):
            reference(two)
    one = Mixture(jnp.zeros((2, 1)), jnp.zeros((2, 1, 1)), jnp.asarray([[[1.0]], [[0.0]]]))
    with pytest.raises(ValueError, match="variances must be positive"):
        bounds.mi_quadrature(one)
    with pytest.raises(ValueError, match="shape"):
        bounds.mi_quadrature(random_members(0), np.ones(2, np.float32) / 2)
