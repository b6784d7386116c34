"""Quantiles and modes of mixtures, against closed forms and SciPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from milb.ask_tell.modes import SAME_MODE, modes, quantiles
from milb.mixture import Mixture

WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
MEANS = np.array([[[0, 5], [4, -5], [9, 0]], [[0, 0], [0.1, 0], [8, 8]], [[1, 2], [50, 3], [3, 4]]], float)
VARIANCES = np.array([[[1, 4], [0.25, 1], [1, 1]], [[1, 1], [1, 1], [0.01, 0.01]], [[1, 9], [1, 1], [1, 1]]], float)


@pytest.fixture(scope="module")
def mixture():
    log_weights = np.log(np.maximum(WEIGHTS, 1e-300))
    return Mixture(*(jnp.asarray(a, jnp.float32) for a in (log_weights, MEANS, VARIANCES)))


def test_quantiles_solve_the_distribution_function(mixture):
    levels = np.array([0.05, 0.3, 0.5, 0.99], np.float32)
    found = np.asarray(quantiles(mixture, jnp.asarray(levels)))
    for q, b, d in np.ndindex(found.shape):

        def excess(y, level=levels[q], b=b, d=d):
            return WEIGHTS[b] @ stats.norm.cdf(y, MEANS[b, :, d], np.sqrt(VARIANCES[b, :, d])) - level

        assert found[q, b, d] == pytest.approx(brentq(excess, -100, 100), abs=1e-3)


def test_modes_of_separate_components_are_their_means(mixture):
    apart, _, single = modes(mixture)
    np.testing.assert_allclose(apart.locations, MEANS[0], atol=1e-2)
    np.testing.assert_allclose(apart.shares, WEIGHTS[0], rtol=1e-5)
    np.testing.assert_allclose(single.locations[0], MEANS[2, 0], atol=1e-3)
    assert single.shares[0] == pytest.approx(1)


def test_components_that_overlap_share_a_mode(mixture):
    _, close, _ = modes(mixture)
    np.testing.assert_allclose(close.shares, [0.75, 0.25], rtol=1e-5)
    np.testing.assert_allclose(close.locations[0], [1 / 30, 0], atol=1e-2)  # two equal bumps 0.1 apart, 2 : 1
    np.testing.assert_allclose(close.locations[1], [8, 8], atol=1e-3)


@pytest.mark.parametrize(("distance", "n_modes"), [(1.9, 1), (2.6, 2)])
def test_two_equal_bumps_part_beyond_two_standard_deviations(distance, n_modes):
    means = jnp.asarray([[[0.0, 0], [distance, 0], [0.0, 0]]], jnp.float32)
    weights = jnp.log(jnp.array([[0.5, 0.5, 1e-30]], jnp.float32))
    (found,) = modes(Mixture(weights, means, jnp.ones_like(means)))
    kept = found.locations[found.shares > 1e-6]
    assert len(kept) == n_modes
    if n_modes == 2:
        assert np.ptp(kept[:, 0]) > 2 * SAME_MODE
