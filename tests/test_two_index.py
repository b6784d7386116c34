"""Decompositions: identities, extremes, cases worked out by hand, and anything that speaks the protocol."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from milb import Mixture, two_index
from milb.two_index import Decomposition


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussians:
    """Members z with mean slope_z * x and one standard deviation."""

    slopes: jax.Array
    std: jax.Array

    @property
    def n_members(self):
        return len(self.slopes)

    def draw_z(self, key, n):
        return jax.random.randint(key, (n,), 0, self.n_members)

    def draw_epsilon(self, key, n):
        return jax.random.normal(key, (n, 1))

    def g(self, x, z, epsilon):
        return self.slopes[z] * x + self.std * epsilon

    def log_prob(self, y, x, z):
        return jax.scipy.stats.norm.logpdf(y, self.slopes[z] * x, self.std).sum()


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Line:
    """Bayesian linear regression, y = z x + epsilon with z ~ N(0, 1): a continuous Z."""

    def draw_z(self, key, n):
        return jax.random.normal(key, (n, 1))

    def draw_epsilon(self, key, n):
        return 0.5 * jax.random.normal(key, (n, 1))

    def g(self, x, z, epsilon):
        return z * x + epsilon

    def log_prob(self, y, x, z):
        return jax.scipy.stats.norm.logpdf(y, z * x, 0.5).sum()


class Implicit:
    """`Line` without a density, and a plain object, not a pytree."""

    draw_z, draw_epsilon, g = Line.draw_z, Line.draw_epsilon, Line.g


X = np.linspace(0, 3, 8)[:, None].astype(np.float32)
MODEL = Gaussians(jnp.array([-1.0, 1.0, 2.0]), jnp.array(0.7))


def as_mixture(model, x):
    means = np.asarray(model.slopes)[:, None, None, None] * x[None, :, None]
    return Mixture.checked(np.zeros(means.shape[:-1]), means, np.full(means.shape, float(model.std) ** 2))


@pytest.fixture(scope="module")
def cross():
    return two_index.cross_log_densities(jax.random.key(0), MODEL, X, n_epsilon=300)


def assert_identity(terms, atol=1e-5):
    assert isinstance(terms, Decomposition)
    terms = jax.tree.map(np.asarray, terms)
    assert_allclose(terms.total, terms.aleatoric + terms.epistemic, rtol=1e-5, atol=atol)


# Variance


@pytest.mark.parametrize("shape", [(1, 1), (3, 40), (4, 7, 5, 2)])
def test_total_variance_is_that_of_the_pooled_sample(rng, shape):
    samples = (5 + rng.normal(size=shape) * np.arange(1, shape[0] + 1).reshape(-1, *(1,) * (len(shape) - 1))).astype(
        "f4"
    )
    terms = two_index.variance_decomposition(samples)
    assert_identity(terms)
    assert_allclose(terms.total, samples.reshape(-1, *shape[2:]).var(0), rtol=1e-5)
    assert_allclose(terms.epistemic, samples.mean(1).var(0), rtol=1e-4, atol=1e-6)


def test_variance_by_hand():
    terms = two_index.variance_decomposition([[0.0, 2.0], [4.0, 10.0]])
    assert terms == (14.0, 5.0, 9.0)  # means 1 and 7, variances 1 and 9


@pytest.mark.exhaustive
def test_variance_of_mixtures_is_that_of_their_draws(rng):
    members = Mixture.from_logits(
        *(rng.normal(size=(3, 4, 2, *d)).astype("f4") for d in ((), (2,))), np.ones((3, 4, 2, 2))
    )
    exact = two_index.variance_decomposition_mixture(members)
    assert_identity(exact)
    sampled = two_index.variance_decomposition(jnp.moveaxis(members.sample(jax.random.key(1), (20_000,)), 1, 0))
    for a, b in zip(exact, sampled, strict=True):
        assert_allclose(a, b, rtol=0.05, atol=0.01)


@pytest.mark.exhaustive
def test_bias_of_the_sampled_variance_is_as_documented():
    model, n = Gaussians(jnp.zeros(3), jnp.array(1.0)), 5
    keys = jax.random.split(jax.random.key(0), 4_000)
    samples = jax.vmap(lambda key: jax.vmap(lambda key: model.draw_epsilon(key, n))(jax.random.split(key, 3)))(keys)
    terms = jax.tree.map(lambda leaf: leaf.mean(), jax.vmap(two_index.variance_decomposition)(samples))
    assert_allclose(terms.aleatoric, 1 - 1 / n, rtol=0.02)
    assert_allclose(terms.epistemic, (2 / 3) / n, rtol=0.05)


# Entropy of classes


def test_bald_by_hand():
    terms = two_index.entropy_decomposition_categorical([[0.9, 0.1], [0.5, 0.5]])
    assert_allclose(terms, [0.610864, 0.509115, 0.101749], atol=1e-6)
    assert_identity(terms)


def test_bald_of_agreement_and_of_contradiction(rng):
    probabilities = rng.dirichlet(np.ones(4), size=6).astype("f4")
    agree = two_index.entropy_decomposition_categorical(np.broadcast_to(probabilities, (3, 6, 4)))
    assert_identity(agree)
    assert_allclose(agree.epistemic, 0, atol=1e-6)
    contradict = two_index.entropy_decomposition_categorical(np.eye(4)[:, None])
    assert_allclose(contradict, np.array([[np.log(4)], [0], [np.log(4)]]), atol=1e-6)


@pytest.mark.parametrize("wrong", [[0.5, 0.5], [[0.5, 0.6], [0.5, 0.5]], [[-0.1, 1.1], [0.5, 0.5]]])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValueError, match="probabilities must"):
        two_index.entropy_decomposition_categorical(wrong)


# Entropy of densities


def test_nested_monte_carlo_equals_known_entropies(cross):
    terms, error = two_index.entropy_decomposition_log_densities(cross), two_index.epistemic_standard_error(cross)
    terms, error = jax.tree.map(np.asarray, (terms, error))
    assert_identity(terms)
    assert_allclose(terms.aleatoric, stats.norm.entropy(0, 0.7), atol=0.1)
    y = np.linspace(-12, 15, 4_001)[:, None, None]
    density = stats.norm.pdf(y, np.asarray(MODEL.slopes) * X, 0.7)  # y, point, member
    marginal = density.mean(-1)
    total = -np.trapezoid(marginal * np.log(marginal + 1e-300), y[:, :, 0], axis=0)
    assert_allclose(terms.total, total, atol=0.1)
    assert (np.abs(terms.epistemic - (total - stats.norm.entropy(0, 0.7))) <= 4 * error + 1e-5).all()
    assert (np.diff(terms.epistemic) > -0.02).all() and terms.epistemic[-1] > 0.9  # grows as the lines part


@pytest.mark.exhaustive
def test_standard_error_is_the_spread_over_keys():
    def run(key):
        cross = two_index.cross_log_densities(key, MODEL, X[5:6], n_epsilon=50)
        return two_index.entropy_decomposition_log_densities(cross).epistemic, two_index.epistemic_standard_error(cross)

    estimates, errors = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 200))
    assert_allclose(estimates.std(), errors.mean(), rtol=0.25)


def test_information_of_identical_and_of_disjoint_members():
    same = two_index.decompose_entropy(jax.random.key(0), Gaussians(jnp.ones(3), jnp.array(0.7)), X, n_epsilon=300)
    assert_allclose(same.epistemic, 0, atol=1e-6)
    model = Gaussians(jnp.array([-99.0, 0, 99.0]), jnp.array(0.7))
    apart = two_index.decompose_entropy(jax.random.key(0), model, X + 1, n_epsilon=300)
    assert_allclose(apart.epistemic, np.log(3), atol=1e-5)
    assert_identity(apart)


@pytest.mark.exhaustive
def test_bounds_enclose_every_term(cross):
    lower, upper = jax.tree.map(np.asarray, two_index.entropy_bounds_mixture(as_mixture(MODEL, X)))
    terms = jax.tree.map(np.asarray, two_index.entropy_decomposition_log_densities(cross))
    for below, value, above in zip(lower, terms, upper, strict=True):
        assert (below <= value + 0.12).all() and (value <= above + 0.12).all()
    assert (lower.epistemic >= 0).all() and (upper.epistemic <= np.log(3) + 1e-6).all()
    assert_allclose(lower.aleatoric, stats.norm.entropy(0, 0.7), atol=0.5 * (1 - np.log(2)))
    assert_allclose(upper.aleatoric, stats.norm.entropy(0, 0.7), atol=1e-4)


def test_range_of_a_continuous_z_encloses_the_closed_form():
    x = np.array([[0.0], [0.5], [2.0]])
    cross = two_index.cross_log_densities(jax.random.key(0), Line(), x, n_z=64, n_epsilon=20)
    lower, upper = map(np.asarray, two_index.mutual_information_range(cross))
    exact = 0.5 * np.log(1 + (x[:, 0] / 0.5) ** 2)
    assert (lower <= exact + 0.1).all() and (exact <= upper + 0.1).all()
    assert (lower <= upper + 1e-6).all() and (lower <= np.log(64)).all()
    assert_allclose(lower, exact, atol=0.2)
    assert_allclose(lower, two_index.entropy_decomposition_log_densities(cross).epistemic, atol=1e-5)


# The protocol


def test_variance_of_a_model_with_continuous_z():
    terms = two_index.decompose_variance(jax.random.key(0), Line(), X[-1:], n_z=2_000, n_epsilon=20)
    assert_identity(terms, atol=1e-4)
    assert_allclose(np.ravel(terms), [9.25, 0.25, 9], rtol=0.1)


def test_draws_have_members_draws_points_dimensions():
    samples = two_index.sample(jax.random.key(0), MODEL, X, n_z=99, n_epsilon=5)
    assert samples.shape == (3, 5, 8, 1), "n_z does not count where Z has three values"
    samples = np.asarray(samples)
    noise = (samples - np.asarray(MODEL.slopes)[:, None, None, None] * X[None, None]) / 0.7
    assert_allclose(noise, np.broadcast_to(noise[:, :, :1], noise.shape), atol=1e-4)  # the same at every x,
    assert len(np.unique(np.round(noise[:, :, 0], 5))) == 15  # others for every z


@pytest.mark.exhaustive
def test_draws_at_a_point_do_not_depend_on_the_other_points():
    samples = two_index.sample(jax.random.key(0), MODEL, X, n_epsilon=5)
    many = two_index.sample(jax.random.key(0), MODEL, np.tile(X, (5, 1)), n_epsilon=5)
    assert_allclose(many, np.tile(samples, (1, 1, 5, 1)), rtol=1e-5)


def test_an_implicit_model_is_estimated_from_samples():
    assert isinstance(Implicit(), two_index.TwoIndexModel)
    arguments = (jax.random.key(0), Implicit(), X[-1:], 8, 60)
    terms = two_index.decompose_entropy(*arguments)
    assert_identity(terms)
    assert 1 < terms.epistemic[0] <= np.log(8) + 0.1
    assert two_index.decompose_entropy(*arguments, estimator=lambda samples: samples.shape) == (8, 60, 1, 1)


def test_second_call_does_not_retrace(monkeypatch):
    traces = []
    monkeypatch.setattr(Gaussians, "draw_epsilon", lambda self, key, n: traces.append(1) or jnp.zeros((n, 1)))
    for slope in (0.0, 1.0):
        two_index.sample(jax.random.key(0), Gaussians(jnp.full(4, slope), MODEL.std), X, n_epsilon=3)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: two_index.check_model(object()), TypeError, "object is no TwoIndexModel: .* draw_z, draw_epsilon, g"),
        (lambda: two_index.sample(jax.random.key(0), MODEL, X[:, 0]), ValueError, r"x must have shape \(B, dx\)"),
        (lambda: two_index.sample(jax.random.key(0), MODEL, X, n_epsilon=0), ValueError, "n_epsilon .*, got 0"),
        (lambda: two_index.sample(jax.random.key(0), MODEL, X, n_z=2.0), ValueError, "n_z must be an integer"),
        (lambda: two_index.cross_log_densities(jax.random.key(0), Implicit(), X), TypeError, "no log_prob"),
        (lambda: two_index.variance_decomposition([1.0]), ValueError, r"samples must have shape \(E, n"),
        (lambda: two_index.mutual_information_range(np.zeros((2, 3, 3))), ValueError, r"\(E, n, E, ...\), got"),
        (lambda: two_index.mutual_information_range(np.zeros((1, 3, 1))), ValueError, "needs two values of z"),
        (lambda: two_index.epistemic_standard_error(np.zeros((3, 1, 3))), ValueError, "needs two draws of each z"),
    ],
)
def test_errors_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


class Scalar(Implicit):
    """Writes a real output without an axis."""

    def g(self, x, z, epsilon):
        return x[0] + epsilon.sum()


class NoIndices(Implicit):
    """Its epistemic indices are not stacked."""

    def draw_z(self, key, n):
        return None


class OnePerDimension(Gaussians):
    """Its density does not sum over dimensions."""

    def log_prob(self, y, x, z):
        return -(y**2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Scalar(), r"g returns scalars: .* an axis, y\[None\]"),
        (NoIndices(), "draw_z must return arrays stacked on one axis 0"),
        (OnePerDimension(jnp.zeros(3), jnp.array(1.0)), "log_prob must return one number"),
    ],
)
def test_models_that_answer_in_other_shapes_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        two_index.decompose_entropy(jax.random.key(0), model, X, 4, 10)
    assert two_index.decompose_variance(jax.random.key(0), Implicit(), X, np.int64(4), np.int64(10)).total.shape == (
        8,
        1,
    )
