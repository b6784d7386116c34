"""The example families, really trained at smoke scale: what comes out of g is what the density says it is."""

import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from milb import two_index
from milb.mdn import Ensemble, MixtureDensityNetwork, initialise, predict
from milb.two_index import bayesian_classifier, conditional_vae, epinet, examples, flow_matching, mixture_ensemble
from milb.two_index.fitting import standardisation

pytestmark = pytest.mark.slow

SMOKE = two_index.settings("smoke")
FITS = {
    "conditional_vae": conditional_vae.fit,
    "flow_matching": flow_matching.fit,
    "epinet": epinet.fit,
    "mixture_ensemble": mixture_ensemble.fit,
}
# Compiling a training takes seconds: the smoke copy of notebook 02, in `make test` too, trains all of them.
VAE, EPINET, MIXTURES = (pytest.param(name, marks=pytest.mark.exhaustive) for name in FITS if name != "flow_matching")
every_family = pytest.mark.parametrize("name", [VAE, "flow_matching", EPINET, MIXTURES])
N_Z, N_EPSILON = 3, 200
X = np.linspace(-1.5, 1.5, 7)[:, None].astype(np.float32)


@pytest.fixture(scope="module")
def data():
    x, y = examples.split_curve_data(jax.random.key(0), 600)
    return np.asarray(x), 10 * np.asarray(y)  # not in units of 1


@pytest.fixture(scope="module")
def trained(data):
    """Name to model, trained when first asked for."""
    return cache(lambda name: FITS[name](jax.random.key(1), *data, SMOKE))


@pytest.fixture(scope="module")
def samples(trained):
    return cache(lambda name: np.asarray(two_index.sample(jax.random.key(2), trained(name), X, N_Z, N_EPSILON)))


@pytest.fixture(scope="module")
def moons():
    return tuple(map(np.asarray, examples.two_moons(jax.random.key(0), 200, noise=0.1)))


@pytest.fixture(scope="module")
def classifier(moons):
    return bayesian_classifier.fit(jax.random.key(1), *moons, SMOKE)


def energy_score(samples, y):
    """E|Y - y| - E|Y - Y'| / 2 of draws (n,), averaged over y: proper, lower is better."""
    between = np.abs(samples[:, None] - samples[None]).mean()
    return np.abs(samples[:, None] - y[None]).mean() - between / 2


@every_family
def test_has_learned_from_x(name, samples, data):
    """Better than the labels' own distribution, whatever x is."""
    truth = 10 * np.asarray(examples.split_curve(X).sample(jax.random.key(3), (200,)))[..., 0]
    scores = [energy_score(samples(name)[:, :, b, 0].ravel(), truth[:, b]) for b in range(len(X))]
    of_data = [energy_score(data[1][:, 0], truth[:, b]) for b in range(len(X))]
    assert np.mean(scores) < 0.85 * np.mean(of_data)


@every_family
def test_speaks_the_protocol(name, trained, samples):
    model = trained(name)
    assert isinstance(model, two_index.TwoIndexModel)
    n_z = N_Z if name == "epinet" else SMOKE.n_members
    assert samples(name).shape == (n_z, N_EPSILON, len(X), 1) and np.isfinite(samples(name)).all()
    assert np.ptp(samples(name).mean(1), axis=0).min() > 0, "values of z differ"
    terms = jax.tree.map(np.asarray, two_index.variance_decomposition(samples(name)))
    assert_allclose(terms.total, terms.aleatoric + terms.epistemic, rtol=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FITS)
def test_entropies_add_up(name, trained):
    entropies = two_index.decompose_entropy(jax.random.key(4), trained(name), X[:2], n_z=N_Z, n_epsilon=50)
    entropies = jax.tree.map(np.asarray, entropies)
    assert_allclose(entropies.total, entropies.aleatoric + entropies.epistemic, rtol=1e-4, atol=1e-4)
    assert (entropies.epistemic <= np.log(3) + 0.05).all()
    drawn = np.asarray(trained(name).draw_z(jax.random.key(0), 20))
    assert len(drawn) == 20 and (name == "epinet" or set(drawn.tolist()) == {0, 1})


@pytest.mark.parametrize("name", ["flow_matching", EPINET, MIXTURES])
def test_push_forward_samples_match_the_density(name, trained, samples):
    """Kolmogorov-Smirnov for every z, against the integral of exp(log_prob)."""
    model, y = trained(name), np.linspace(-60, 60, 2_001)
    z = two_index.epistemic_indices(jax.random.split(jax.random.key(2))[0], model, N_Z)  # as `sample` draws it

    @jax.jit
    def densities(model, z, x, y):
        of_y = jax.vmap(model.log_prob, in_axes=(0, None, None))
        return jnp.exp(jax.vmap(of_y, in_axes=(None, None, 0))(y, x, z))

    for b in (1, 5):
        density = np.asarray(densities(model, z, X[b], y[:, None].astype(np.float32)), np.float64)
        cumulated = np.concatenate([np.zeros((len(density), 1)), np.cumsum(density[:, 1:] + density[:, :-1], 1)], 1)
        cumulated *= 0.5 * (y[1] - y[0])
        assert_allclose(cumulated[:, -1], 1, atol=0.01)
        for of_z, draws in zip(cumulated, samples(name)[:, :, b, 0], strict=True):
            assert stats.kstest(draws, lambda v, of_z=of_z: np.interp(v, y, of_z)).pvalue > 1e-3


# One by one


@pytest.mark.exhaustive
def test_vae_counts_observation_noise_in_epsilon(trained):
    model = trained("conditional_vae")
    epsilon = model.draw_epsilon(jax.random.key(0), 500)
    assert epsilon.shape == (500, 2 + 1)
    noise = np.exp(model.parameters["params"]["log_noise"])[0] * np.asarray(model.outputs.scale)
    of_epsilon = jax.jit(jax.vmap(lambda epsilon: model.g(jnp.asarray(X[0]), 0, epsilon)))
    y = np.asarray(of_epsilon(epsilon * jnp.array([[0, 0, 1]])))  # the code is 0
    u = np.asarray(epsilon[:, 2:])
    assert_allclose(y - y.mean(), noise * (u - u.mean()), rtol=1e-3, atol=1e-3)
    with pytest.raises(TypeError, match="ConditionalVAE has no log_prob"):
        two_index.cross_log_densities(jax.random.key(0), model, X)


@pytest.mark.exhaustive
def test_flow_is_increasing_in_epsilon_and_its_density_is_its_slope(trained):
    model, x, epsilon = trained("flow_matching"), jnp.asarray(X[5]), jnp.linspace(-2, 2, 41)
    slope = jax.vmap(jax.jacfwd(lambda e: model.g(x, 1, e[None])[0]))(epsilon)
    y = jax.vmap(lambda e: model.g(x, 1, e[None]))(epsilon)
    assert (slope > 0).all()
    log_prob = jax.vmap(model.log_prob, in_axes=(0, None, None))(y, x, 1)
    assert_allclose(log_prob, stats.norm.logpdf(epsilon) - np.log(slope), atol=0.02)


def test_flow_without_diffrax_says_what_to_install(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "diffrax", None)
    with pytest.raises(ImportError, match=r"pip install 'milb\[notebooks\]'"):
        trained("flow_matching").g(jnp.zeros(1), 0, jnp.zeros(1))


@pytest.mark.exhaustive
def test_epinet_aleatoric_entropy_is_the_formula(trained):
    model = trained("epinet")
    z = model.draw_z(jax.random.key(0), 2)
    over_x = jax.vmap(model.mean_and_std, in_axes=(0, None))
    means, stds = map(np.asarray, jax.jit(jax.vmap(over_x, in_axes=(None, 0)))(X, z))
    assert_allclose(stds[0], stds[1])  # does not depend on z,
    assert np.abs(means[0] - means[1]).min() > 0  # which the mean does
    assert_allclose(epinet.aleatoric_entropy(model, X), stats.norm.entropy(0, stds[0, :, 0]), rtol=1e-4)


@pytest.mark.exhaustive
def test_mixture_ensemble_is_milbs_own(data):
    """With networks as they are drawn: a density does not ask whether it was trained."""
    network = MixtureDensityNetwork(width=8, depth=2, n_components=3, n_outputs=1)
    parameters = initialise(jax.random.key(0), network, n_members=2, n_inputs=1)
    ensemble = Ensemble(parameters, *map(standardisation, map(jnp.asarray, data)), network)
    model, x = mixture_ensemble.MixtureEnsemble(ensemble), jnp.asarray(X[5])
    members = predict(ensemble, x[None])
    n = 400  # equal steps of the uniform part pick every component as often as its weight says
    epsilon = ((jnp.arange(n) + 0.5) / n, jnp.zeros((n, 1)))
    drawn, log_prob = jax.jit(jax.vmap(lambda e: (y := model.g(x, 1, e), model.log_prob(y, x, 1))))(epsilon)
    assert_allclose(log_prob, members.log_prob(drawn[None])[1], rtol=1e-4, atol=1e-4)
    shares = [np.mean(np.isclose(drawn, mean, rtol=1e-3)) for mean in np.asarray(members.means)[1, 0, :, 0]]
    assert_allclose(shares, np.exp(members.log_weights)[1, 0], atol=1 / n + 1e-4)
    assert model.n_members == 2 and set(np.asarray(model.draw_z(jax.random.key(0), 20)).tolist()) == {0, 1}


# The classifier


FAR = np.array([[0.5, 0.25], [-3.0, 4.0], [4.0, -3.0]], np.float32)


def test_classifier_has_learned(classifier, moons):
    probabilities = np.asarray(bayesian_classifier.class_probabilities(jax.random.key(0), classifier, moons[0], 20))
    assert probabilities.shape == (20, 200, 2)
    assert_allclose(probabilities.sum(-1), 1, atol=1e-5)
    assert np.mean(probabilities.mean(0).argmax(-1) == moons[1]) > 0.85
    terms = jax.tree.map(np.asarray, two_index.entropy_decomposition_categorical(probabilities))
    assert_allclose(terms.total, terms.aleatoric + terms.epistemic, atol=1e-5)
    assert (terms.epistemic > 0).all() and (terms.total <= np.log(2) + 1e-6).all()


def test_g_is_the_inverse_distribution_function(classifier, moons):
    z, n = classifier.draw_z(jax.random.key(0), 1)[0], 1_000
    x, epsilon = jnp.array([0.5, 0.3]), (jnp.arange(n + 1) + 0.5) / n  # the last one is beyond 1

    @jax.jit
    def outcomes(z):
        classes = jax.vmap(classifier.g, in_axes=(None, None, 0))(x, z, epsilon)
        log_prob = jax.vmap(classifier.log_prob, in_axes=(0, None, None))(jnp.arange(2), x, z)
        return classes, classifier.probabilities(x, z), jnp.exp(log_prob)

    classes, probabilities, by_density = map(np.asarray, outcomes(z))
    assert 0.01 < probabilities[0] < 0.99
    assert_allclose(np.bincount(classes[:n], minlength=2) / n, probabilities, atol=1 / n + 1e-5)
    assert (np.diff(classes) >= 0).all() and classes[-1] == 1
    assert_allclose(by_density, probabilities, rtol=1e-5)


@pytest.mark.exhaustive
def test_nested_monte_carlo_agrees_with_bald(classifier):
    exact = bayesian_classifier.decompose_entropy(jax.random.split(jax.random.key(0))[0], classifier, FAR, n_z=30)
    sampled = two_index.decompose_entropy(jax.random.key(0), classifier, FAR, n_z=30, n_epsilon=400)  # the same z
    for a, b in zip(sampled, exact, strict=True):
        assert_allclose(a, b, atol=0.04)
    assert two_index.sample(jax.random.key(0), classifier, FAR, n_z=4, n_epsilon=5).shape == (4, 5, 3)


# Arguments


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_labels_are_checked(fit, data):
    with pytest.raises(ValueError, match=r"x must be \(N, dx\) and y \(N, D\)"):
        fit(jax.random.key(0), data[0], data[1][:, 0], SMOKE)
    with pytest.raises(ValueError, match="y is nan in labelled row 0"):
        fit(jax.random.key(0), data[0], np.full_like(data[1], np.nan), SMOKE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, y: conditional_vae.fit(jax.random.key(0), x, y, SMOKE, n_latent=0), "n_latent .* got 0"),
        (lambda x, y: epinet.fit(jax.random.key(0), x, y, SMOKE, n_index=0), "n_index .* got 0"),
        (lambda x, y: epinet.fit(jax.random.key(0), x, y, SMOKE, prior_scale=-1), "prior_scale .* -1"),
        (lambda x, y: bayesian_classifier.fit(jax.random.key(0), x, y, SMOKE), "labels must be integers"),
        (lambda x, y: bayesian_classifier.fit(jax.random.key(0), x, y[:, 0] > 0, SMOKE), "labels must be integers"),
        (lambda x, y: bayesian_classifier.fit(jax.random.key(0), x, [0, 2], SMOKE), "from 0 to 1, got 0 .. 2"),
        (lambda x, y: bayesian_classifier.fit(jax.random.key(0), x, [0], SMOKE, prior_std=0), "prior_std positive"),
        (lambda x, y: examples.split_curve(x[:, 0]), r"x must have shape \(B, 1\)"),
        (lambda x, y: two_index.settings("large"), "scale must be one of"),
        (lambda x, y: two_index.Settings(batch_size=0), "batch_size must be an integer >= 1, got 0"),
        (lambda x, y: two_index.Settings(learning_rate=float("nan")), "learning_rate must be positive"),
    ],
)
def test_settings_are_checked(call, message, data):
    with pytest.raises(ValueError, match=message):
        call(*data)


def test_inputs_of_other_columns_are_refused():
    x, settings = np.random.default_rng(0).normal(size=(9, 2)), two_index.Settings(width=4, n_steps=1)
    model = epinet.fit(jax.random.key(0), x, x[:, :1], settings)
    for x in (X[:, :1], np.zeros((3, 3), np.float32)):
        with pytest.raises(ValueError, match=r"expected 2 column\(s\)"):
            two_index.sample(jax.random.key(0), model, x, 2, 3)
    with pytest.raises(ValueError, match=r"x must have shape \(B, dx\)"):
        epinet.aleatoric_entropy(model, np.zeros(2))


# Data


def test_split_curve_has_labels_where_it_says():
    x, y = map(np.asarray, examples.split_curve_data(jax.random.key(0), 600))
    inside = [(start <= x) & (x <= end) for start, end in examples.LABELLED]
    assert np.logical_or(*inside).all()
    lengths = np.diff(examples.LABELLED, axis=1)[:, 0]
    assert_allclose([np.mean(part) for part in inside], lengths / lengths.sum(), atol=0.05)
    truth = examples.split_curve(x)
    mean, variance = np.asarray(truth.mean())[:, 0], np.asarray(truth.variance())[:, 0]
    score = (y[:, 0] - mean) / np.sqrt(variance)
    assert abs(score.mean()) < 0.1 and abs(score.std() - 1) < 0.1
    assert (np.diff(np.asarray(truth.means), axis=1) < 0).all()


def test_two_moons_lie_on_half_circles():
    points, label = map(np.asarray, examples.two_moons(jax.random.key(0), 200, noise=0.0))
    centres = np.where(label[:, None] == 0, [[0.0, 0.0]], [[1.0, 0.5]])
    assert_allclose(np.linalg.norm(points - centres, axis=1), 1, rtol=1e-5)
    assert ((points[:, 1] > 0) | (label == 1)).all() and 0.4 < label.mean() < 0.6
