"""Entropies from samples: known entropies and mutual information, and the failures that the docstring promises."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from milb import two_index
from milb.two_index import estimators

N = 300
ESTIMATORS = [two_index.entropy_decomposition_kernel, two_index.entropy_decomposition_nearest_neighbours]
both = pytest.mark.parametrize("estimator", ESTIMATORS, ids=["kernel", "neighbours"])

# Members with standard normal noise at these places, all in one array (E = 2, n, case, D = 1).
DISTANCES = np.array([0.0, 1.0, 2.0, 3.0, 30.0])
LINE = (
    np.random.default_rng(0).normal(size=(2, N, 5, 1)) + np.array([0, 1])[:, None, None, None] * DISTANCES[:, None]
).astype("f4")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def information(distance):
    """Of two equally likely unit Gaussians so far apart, by quadrature."""

    def integrand(y):
        p, q = stats.norm.pdf(y), stats.norm.pdf(y, distance)
        return p * (np.log(p) - np.log(0.5 * (p + q)))

    return integrate.quad(integrand, -9, 9)[0]


@both
def test_known_mutual_information(estimator):
    terms = estimator(LINE)
    terms = jax.tree.map(np.asarray, terms)
    assert_allclose(terms.total, terms.aleatoric + terms.epistemic, rtol=1e-5, atol=1e-5)
    assert_allclose(terms.epistemic, [information(d) for d in DISTANCES], atol=0.06)
    assert_allclose(terms.epistemic[-1], np.log(2), atol=0.02)  # disjoint
    assert_allclose(terms.aleatoric, stats.norm.entropy(), atol=0.12)


@pytest.mark.exhaustive
@both
def test_batch_axes_are_a_loop(rng, estimator):
    samples = rng.normal(size=(2, 20, 2, 3, 2)).astype("f4")
    terms = estimator(samples)
    assert terms.total.shape == (2, 3)
    one = estimator(np.ascontiguousarray(samples[:, :, 1:, 2:]))
    for a, b in zip(terms, one, strict=True):
        assert_allclose(a[1, 2], b[0, 0], rtol=1e-5, atol=1e-6)


@both
def test_entropy_moves_with_units_and_information_does_not(estimator):
    terms, scaled = (jax.tree.map(np.asarray, estimator(samples)) for samples in (LINE, 100 + 8 * LINE))
    assert_allclose(scaled.aleatoric, terms.aleatoric + np.log(8), atol=1e-3)
    assert_allclose(scaled.epistemic, terms.epistemic, atol=1e-3)


def test_entropy_by_nearest_neighbours_of_known_densities(rng):
    normal = rng.normal(size=(3, N, 2)).astype("f4")
    assert_allclose(two_index.entropy_nearest_neighbours(normal), 2 * stats.norm.entropy(), atol=0.2)
    uniform = rng.uniform(size=(N, 1)).astype("f4")
    assert_allclose(two_index.entropy_nearest_neighbours(uniform), 0, atol=0.15)


def test_entropy_by_nearest_neighbours_by_hand():
    """Distances to the nearest are 1, 1 and 2: digamma(3) - digamma(1) = 3/2, the ball has length 2."""
    entropy = two_index.entropy_nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), k=1)
    assert_allclose(entropy, 1.5 + np.log(2) + np.log(2) / 3, rtol=1e-6)


def test_repeated_draws_have_no_entropy():
    assert two_index.entropy_nearest_neighbours(np.zeros((9, 1))) == -np.inf


def test_kernel_densities_equal_scipys(rng):
    samples = rng.normal(size=(2, 15, 1)).astype("f4")
    computed = two_index.kernel_log_densities(samples, shrinkages=(1.0,))
    assert computed.shape == (2, 15, 2)
    for z in range(2):
        width = (4 / (3 * 15)) ** 0.2 * samples[z].std()

        def density(y, draws, width=width):
            return stats.norm.logpdf(y, draws, width)

        other = [np.logaddexp.reduce(density(y, samples[z, :, 0])) - np.log(15) for y in samples[1 - z, :, 0]]
        assert_allclose(computed[1 - z, :, z], other, rtol=1e-4)
        left_out = [np.delete(samples[z, :, 0], i) for i in range(15)]
        own = [np.logaddexp.reduce(density(samples[z, i, 0], left_out[i])) - np.log(14) for i in range(15)]
        assert_allclose(computed[z, :, z], own, rtol=1e-4)
    scipys = stats.gaussian_kde(samples[0, :, 0], bw_method="silverman")
    ratio = samples[0].std() / samples[0].std(ddof=1)
    scipys.set_bandwidth(scipys.factor * ratio)
    assert_allclose(computed[1, :, 0], scipys.logpdf(samples[1, :, 0]), rtol=1e-3)


def test_silvermans_rule_smooths_two_modes_into_one(rng):
    modes = np.sign(rng.normal(size=LINE.shape)) + 0.1 * rng.normal(size=LINE.shape)
    truth = np.log(2) + stats.norm.entropy(0, 0.1)
    chosen = two_index.entropy_decomposition_kernel(modes.astype("f4")).aleatoric
    silverman = two_index.entropy_decomposition_kernel(modes.astype("f4"), shrinkages=(1.0,)).aleatoric
    assert_allclose(chosen, truth, atol=0.15)
    assert (np.asarray(silverman) > truth + 0.5).all()


@pytest.mark.parametrize("d", [pytest.param(4, marks=pytest.mark.exhaustive), 16])
def test_both_fail_as_dimensions_grow(rng, d):
    """Two members 2 apart along the first of D dimensions: the docstring's numbers."""
    samples = rng.normal(size=(2, 200, 8, d)).astype("f4")
    samples[1, ..., 0] += 2
    kernel, neighbours = (jax.tree.map(np.mean, estimator(samples)) for estimator in ESTIMATORS)
    assert_allclose([kernel.epistemic, neighbours.epistemic], {4: (0.30, 0.35), 16: (0.00, 0.29)}[d], atol=0.07)
    excess = [terms.aleatoric - d * stats.norm.entropy() for terms in (kernel, neighbours)]
    assert_allclose(excess, {4: (0.17, -0.11), 16: (2.5, 1.1)}[d], atol=0.1)
    assert_allclose(information(2.0), 0.34, atol=0.005)


@pytest.mark.parametrize(
    "call",
    [
        lambda: two_index.entropy_nearest_neighbours(np.zeros((3, 1)), k=3),
        lambda: two_index.entropy_decomposition_nearest_neighbours(np.zeros((2, 9, 1)), k=0),
        lambda: two_index.entropy_decomposition_nearest_neighbours(np.zeros((2, 9))),
        lambda: two_index.kernel_log_densities(np.zeros((2, 2, 1))),
    ],
)
def test_shapes_are_checked(call):
    with pytest.raises(ValueError, match=r"samples must have shape .* got \("):
        call()


@pytest.mark.exhaustive
def test_works_inside_jit_and_vmap():
    samples = jnp.asarray(LINE[:, :20, :2])
    mapped = jax.vmap(two_index.entropy_decomposition_kernel, in_axes=2, out_axes=-1)(samples)
    for a, b in zip(mapped, two_index.entropy_decomposition_kernel(samples), strict=True):
        assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert estimators.SHRINKAGES[0] == 1


def test_repeated_draws_count_as_neighbours():
    constant = np.zeros((4, 50, 1, 1), np.float32)
    apart = constant + np.arange(4, dtype=np.float32)[:, None, None, None]
    estimate = two_index.entropy_decomposition_nearest_neighbours
    assert abs(float(estimate(constant).epistemic[0])) < 0.02
    assert abs(float(estimate(apart).epistemic[0]) - np.log(4)) < 0.02
