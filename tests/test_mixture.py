"""Mixtures: densities, moments, samples, the marginal over members, and the errors they promise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from milb import Mixture


def random_mixture(*batch, n_components=3, n_dimensions=2, seed=0):
    rng = np.random.default_rng(seed)
    shape = (*batch, n_components, n_dimensions)
    return Mixture.from_logits(
        rng.normal(size=shape[:-1]).astype(np.float32),
        (2 * rng.normal(size=shape)).astype(np.float32),
        np.exp(rng.normal(size=shape)).astype(np.float32),
    )


def test_log_prob_equals_scipy():
    mixture = random_mixture()
    y = np.array([0.3, -1.2], np.float32)
    terms = [
        np.log(np.exp(w)) + stats.multivariate_normal(m, np.diag(v)).logpdf(y)
        for w, m, v in zip(mixture.log_weights, mixture.means, mixture.variances, strict=True)
    ]
    assert mixture.log_prob(y) == pytest.approx(np.logaddexp.reduce(terms), rel=1e-5)


@pytest.mark.parametrize("family", ["multimodal", "double_well", "ternary", "single", "sharp", "agree"])
def test_likelihoods_of_reference(reference, family):
    data = reference("acquisition")
    logits, means, variances, targets = (
        data[f"mix_{family}/{name}"] for name in ("logits", "means", "variances", "targets")
    )
    members = Mixture.from_logits(logits, means, variances)
    expected = {name: data[f"mix_{family}/{name}_nll"] for name in ("member", "ensemble")}
    for computed, name in (
        (members.log_prob(targets[None]), "member"),
        (members.marginal().log_prob(targets), "ensemble"),
    ):
        error = np.abs(-np.asarray(computed) - expected[name]) / (1 + np.abs(expected[name]))
        assert error.max() < 2e-5


def test_log_prob_broadcasts_over_leading_axes():
    mixture = random_mixture(4, 5)
    y = np.ones((7, 1, 5, 2), np.float32)
    assert mixture.log_prob(y).shape == (7, 4, 5)
    one = Mixture(mixture.log_weights[1, 2], mixture.means[1, 2], mixture.variances[1, 2])
    assert mixture.log_prob(y)[3, 1, 2] == pytest.approx(float(one.log_prob(y[3, 0, 2])), rel=1e-6)


def test_moments_agree_with_samples():
    mixture = random_mixture(3)
    samples = np.asarray(mixture.sample(jax.random.key(0), (200_000,)))
    assert samples.shape == (200_000, 3, 2)
    error = np.sqrt(np.asarray(mixture.variance()) / len(samples))
    assert (np.abs(samples.mean(0) - mixture.mean()) < 5 * error).all()
    np.testing.assert_allclose(samples.var(0), mixture.variance(), rtol=0.03)


def test_samples_follow_the_density():
    mixture = random_mixture(n_dimensions=1)
    samples = np.asarray(mixture.sample(jax.random.key(1), (2_000,)))[:, 0]
    weights, means, stds = np.exp(mixture.log_weights), mixture.means[:, 0], np.sqrt(mixture.variances[:, 0])

    def cdf(y):
        return (weights * stats.norm.cdf(y[:, None], means, stds)).sum(1)

    assert stats.kstest(samples, cdf).pvalue > 1e-3


def test_sample_takes_old_and_new_keys():
    mixture = random_mixture(3)
    assert mixture.sample(jax.random.PRNGKey(0)).shape == mixture.sample(jax.random.key(0)).shape == (3, 2)


def test_components_of_weight_zero_are_as_absent():
    mixture = random_mixture(n_components=2)
    padded = Mixture(
        jnp.append(mixture.log_weights, -jnp.inf),
        jnp.append(mixture.means, jnp.full((1, 2), 1e3), axis=0),
        jnp.append(mixture.variances, jnp.ones((1, 2)), axis=0),
    )
    y = np.zeros(2, np.float32)
    assert padded.log_prob(y) == pytest.approx(float(mixture.log_prob(y)))
    np.testing.assert_allclose(padded.mean(), mixture.mean(), rtol=1e-6)
    assert np.isfinite(jax.grad(lambda m: m.log_prob(y))(padded).means).all()


def test_marginal_is_the_weighted_density():
    members = random_mixture(4, 5)
    weights = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    y = np.full((5, 2), 0.5, np.float32)
    expected = np.log((weights[:, None] * np.exp(members.log_prob(y[None]))).sum(0))
    marginal = members.marginal(weights)
    assert marginal.means.shape == (5, 12, 2)
    np.testing.assert_allclose(marginal.log_prob(y), expected, rtol=1e-5)
    np.testing.assert_array_equal(marginal.means[2, 3:6], members.means[1, 2])  # members outermost


def test_mixture_is_a_pytree_under_jit_and_vmap():
    mixture = random_mixture(6)
    y = np.zeros((6, 2), np.float32)
    mapped = jax.jit(jax.vmap(lambda m, y: m.log_prob(y)))(mixture, y)
    np.testing.assert_allclose(mapped, mixture.log_prob(y), rtol=1e-6)


def test_extreme_values_and_gradients_are_finite():
    mixture = Mixture.checked(
        np.log([1 - np.exp(-200.0), np.exp(-200.0)]).astype(np.float32),
        np.array([[0.0], [3.0]], np.float32),
        np.array([[1e-12], [1.0]], np.float32),
    )
    value, gradient = jax.value_and_grad(lambda m: m.log_prob(np.array([1e-6], np.float32)))(mixture)
    assert np.isfinite(value) and all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


ZERO, ONE = np.zeros((3, 2), np.float32), np.ones((3, 2), np.float32)
UNIFORM = np.full(3, -np.log(3), np.float32)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((UNIFORM, ZERO, ONE[:2]), "got"),
        ((UNIFORM[:2], ZERO, ONE), "log_weights"),
        ((UNIFORM, ZERO[:, 0], ONE[:, 0]), "log_weights"),
        ((UNIFORM, ZERO[:, :0], ONE[:, :0]), "at least one"),
        ((UNIFORM, ZERO, 0 * ONE), "variances must be finite and at least"),
        ((UNIFORM, ZERO, -ONE), "at least"),
        ((UNIFORM, ZERO, 1e-40 * ONE), "at least"),
        ((UNIFORM, ZERO, np.inf * ONE), "variances must be finite"),
        ((UNIFORM, np.nan * ZERO, ONE), "means"),
        ((UNIFORM, ZERO, np.nan * ONE), "variances"),
        ((np.nan * UNIFORM, ZERO, ONE), "NaN"),
        ((UNIFORM + 1, ZERO, ONE), "sum to 1"),
    ],
)
def test_checked_refuses(arrays, message):
    with pytest.raises(ValueError, match=message):
        Mixture.checked(*arrays)


def test_from_logits_refuses_logits_without_any_weight():
    with pytest.raises(ValueError, match="NaN"):
        Mixture.from_logits(np.full(3, -np.inf, np.float32), ZERO, ONE)


@pytest.mark.parametrize("shape", [(), (3,), (5, 1)])
def test_log_prob_refuses_another_dimension(shape):
    with pytest.raises(ValueError, match="2 dimensions"):
        random_mixture().log_prob(np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    ("weights", "message"),
    [([0.5, 0.5], "shape"), ([0.5, 0.6, 0.1], "sum to 1"), ([1.5, -0.5, 0.0], "non-negative"), ([np.nan] * 3, "sum")],
)
def test_marginal_refuses_what_are_no_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        random_mixture(3, 2).marginal(np.array(weights, np.float32))


def test_marginal_needs_a_member_axis():
    with pytest.raises(ValueError, match="axis 0"):
        random_mixture().marginal()


@pytest.mark.parametrize("logits", [np.float16([1.3, 2.7, -0.4]), np.float32([0.1, 1.2, -0.7]) + np.float32(1e5)])
def test_from_logits_normalises_in_float32_whatever_the_offset(logits):
    means = np.zeros((3, 1), np.float32)
    expected = logits.astype(float) - np.logaddexp.reduce(logits.astype(float))
    np.testing.assert_allclose(Mixture.from_logits(logits, means, means + 1).log_weights, expected, atol=1e-6)
