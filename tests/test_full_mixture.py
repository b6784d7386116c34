"""Mixtures with full covariances: equal to scipy, to `Mixture` where covariances are diagonal, and strict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from milb import FullMixture, Mixture, bounds


def random_full(*batch, n_components=3, n_dimensions=2, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shape = (*batch, n_components, n_dimensions)
    roots = np.tril(rng.normal(size=(*shape, n_dimensions)))
    index = np.arange(n_dimensions)
    roots[..., index, index] = np.exp(rng.normal(size=shape))
    arrays = rng.normal(size=shape[:-1]), 2 * rng.normal(size=shape), roots
    return FullMixture.from_logits(*(array.astype(dtype) for array in arrays))


def diagonal_pair(*batch, n_components=3, n_dimensions=2):
    """The same mixtures as both classes."""
    full = random_full(*batch, n_components=n_components, n_dimensions=n_dimensions)
    stds = jnp.diagonal(full.cholesky, axis1=-2, axis2=-1)
    roots = stds[..., None] * jnp.eye(n_dimensions).reshape((1,) * (stds.ndim - 1) + (n_dimensions,) * 2)
    return Mixture(full.log_weights, full.means, stds**2), FullMixture(full.log_weights, full.means, roots)


def test_log_prob_equals_scipy():
    mixture = random_full(n_dimensions=3)
    y = np.array([0.3, -1.2, 0.4], np.float32)
    terms = [
        np.log(np.exp(w)) + stats.multivariate_normal(m, np.asarray(root) @ np.asarray(root).T).logpdf(y)
        for w, m, root in zip(mixture.log_weights, mixture.means, mixture.cholesky, strict=True)
    ]
    np.testing.assert_allclose(mixture.component_log_prob(y), terms, rtol=1e-5)
    assert mixture.log_prob(y) == pytest.approx(np.logaddexp.reduce(terms), rel=1e-5)


def test_equals_mixture_where_covariances_are_diagonal():
    diagonal, full = diagonal_pair(4)
    y = np.ones((5, 1, 2), np.float32)
    np.testing.assert_allclose(full.log_prob(y), diagonal.log_prob(y), rtol=1e-5)
    for name in ("mean", "variance", "covariance", "correlation", "component_variances", "log_pivots"):
        np.testing.assert_allclose(getattr(full, name)(), getattr(diagonal, name)(), rtol=1e-5, atol=1e-6, err_msg=name)
    key = jax.random.key(0)
    np.testing.assert_allclose(full.sample(key, (3,)), diagonal.sample(key, (3,)), rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
def test_moments_agree_with_samples():
    mixture = random_full(2)
    samples = np.asarray(mixture.sample(jax.random.key(0), (100_000,)))
    assert samples.shape == (100_000, 2, 2)
    error = np.sqrt(np.asarray(mixture.variance()) / len(samples))
    assert (np.abs(samples.mean(0) - mixture.mean()) < 5 * error).all()
    for b in range(2):
        scale = np.sqrt(np.outer(mixture.variance()[b], mixture.variance()[b]))
        np.testing.assert_allclose(np.cov(samples[:, b].T) / scale, mixture.correlation()[b], atol=0.03)
        np.testing.assert_allclose(mixture.covariance()[b] / scale, mixture.correlation()[b], rtol=1e-5)


def test_marginal_is_the_weighted_density():
    members = random_full(4, 5)
    weights = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    y = np.full((5, 2), 0.5, np.float32)
    expected = np.log((weights[:, None] * np.exp(members.log_prob(y[None]))).sum(0))
    marginal = members.marginal(weights)
    assert isinstance(marginal, FullMixture) and marginal.cholesky.shape == (5, 12, 2, 2)
    np.testing.assert_allclose(marginal.log_prob(y), expected, rtol=1e-5)
    np.testing.assert_array_equal(marginal.cholesky[2, 3:6], members.cholesky[1, 2])  # members outermost


def test_is_a_pytree_under_jit_and_vmap():
    mixture = random_full(6)
    y = np.zeros((6, 2), np.float32)
    mapped = jax.jit(jax.vmap(lambda m, y: m.log_prob(y)))(mixture, y)
    np.testing.assert_allclose(mapped, mixture.log_prob(y), rtol=1e-5)


UNIFORM, MEANS = np.full(3, -np.log(3), np.float32), np.zeros((3, 2), np.float32)
ROOTS = np.tile(np.eye(2, dtype=np.float32), (3, 1, 1))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((UNIFORM, MEANS, ROOTS[:2]), "got"),
        ((UNIFORM, MEANS, ROOTS[:, 0]), "cholesky"),
        ((UNIFORM[:2], MEANS, ROOTS), "log_weights"),
        ((UNIFORM, MEANS[:, :0], ROOTS[:, :0, :0]), "at least one"),
        ((UNIFORM, MEANS, -ROOTS), "diagonal of at least"),
        ((UNIFORM, MEANS, 1e-30 * ROOTS), "diagonal of at least"),
        ((UNIFORM, MEANS, np.ones_like(ROOTS)), "lower triangular"),
        ((UNIFORM, MEANS, np.nan * ROOTS), "cholesky contains NaN"),
        ((UNIFORM, np.nan * MEANS, ROOTS), "means"),
        ((UNIFORM + 1, MEANS, ROOTS), "sum to 1"),
        ((UNIFORM, MEANS, 1j * ROOTS), "real numbers"),
    ],
)
def test_checked_refuses(arrays, message):
    with pytest.raises(ValueError, match=message):
        FullMixture.checked(*arrays)


def test_refuses_another_dimension_and_what_are_no_weights():
    with pytest.raises(ValueError, match="2 dimensions"):
        random_full().log_prob(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="sum to 1"):
        random_full(2).marginal(np.array([0.5, 0.6], np.float32))


@pytest.mark.parametrize("rho", [1 - 1e-2, 1 - 1e-6])
def test_identical_members_of_almost_singular_covariance_tell_nothing(rho):
    root = np.broadcast_to(np.linalg.cholesky([[1, rho], [rho, 1]]), (2, 1, 2, 2)).astype(np.float32)
    members = FullMixture.from_logits(np.zeros((2, 1)), np.zeros((2, 1, 2)), root)
    for bound in (bounds.mi_certificate, bounds.mi_upper_bound, bounds.mi_pairwise):
        np.testing.assert_allclose(bound(members), 0, atol=1e-5)
    np.testing.assert_allclose(bounds.mi_lower_bound(members), np.log(2) - 1, rtol=1e-5)  # D/2 (log 2 - 1)
