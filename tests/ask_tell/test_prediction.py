"""Predictions in the units of y, at any offset."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from milb.ask_tell.prediction import Prediction
from milb.mixture import Mixture

SHIFT, SCALE = np.array([1e9, -3.0]), np.array([2.0, 0.1])


@pytest.fixture(scope="module")
def prediction():
    """Two members that agree: standard normal at the first point, and at ±3 of the first output at the second."""
    means = jnp.asarray([[[0.0, 0], [0.0, 0]], [[-3.0, 0], [3.0, 0]]])
    members = Mixture(
        jnp.full((2, 2, 2), -np.log(2), jnp.float32), jnp.stack([means, means]), jnp.ones((2, 2, 2, 2), jnp.float32)
    )
    return Prediction(members, SHIFT, SCALE, ("a", "b"))


def test_moments_quantiles_and_modes(prediction):
    np.testing.assert_allclose(prediction.mean, [SHIFT, SHIFT], rtol=1e-12)
    np.testing.assert_allclose(prediction.std, [SCALE, SCALE * [np.sqrt(10), 1]], rtol=1e-6)
    expected = SHIFT + SCALE * stats.norm.ppf([0.05, 0.5, 0.95])[:, None]
    np.testing.assert_allclose(prediction.quantiles()[:, 0] - SHIFT, expected - SHIFT, atol=1e-3)
    one, two = prediction.modes()
    np.testing.assert_allclose(one.locations, [SHIFT])
    np.testing.assert_allclose(np.sort(two.locations[:, 0]) - SHIFT[0], [-6, 6], atol=1e-2)
    np.testing.assert_allclose(two.shares, [0.5, 0.5], rtol=1e-6)


def test_density_and_samples(prediction):
    y = SHIFT + SCALE * [[0.5, -1], [3, 0]]
    standard = [stats.norm.logpdf([0.5, -1]).sum(), np.log(0.5) + 2 * stats.norm.logpdf(0)]
    np.testing.assert_allclose(prediction.log_prob(y), standard - np.log(SCALE).sum(), atol=1e-5)
    samples = prediction.samples(4_000, seed=1)
    assert samples.shape == (4_000, 2, 2)
    np.testing.assert_allclose(samples.std(0), prediction.std, rtol=0.05)
    np.testing.assert_array_equal(samples, prediction.samples(4_000, seed=1))


def test_density_of_one_output(prediction):
    y = -3 + 0.1 * np.linspace(-6, 6, 241)
    np.testing.assert_allclose(
        prediction.density(1, y), np.tile(stats.norm.pdf(y, -3, 0.1), (2, 1)), rtol=1e-3, atol=1e-5
    )
    y = SHIFT[0] + 2 * np.linspace(-10, 10, 401)
    np.testing.assert_allclose(np.trapezoid(prediction.density(0, y), y, axis=1), 1, rtol=1e-3)


def test_mixture_in_raw_units(prediction):
    assert prediction.members.log_weights.shape == (2, 2, 2) and prediction.mixture.means.shape == (2, 4, 2)
    np.testing.assert_allclose(np.asarray(prediction.mixture.mean())[:, 1], -3, rtol=1e-6)
    std = np.sqrt(prediction.mixture.variance())
    np.testing.assert_allclose(std[:, 1], prediction.std[:, 1], rtol=1e-5)  # of the other, float32 has no digit left


@pytest.mark.parametrize("unit", [1e20, 1e-20])
def test_units_beyond_float32(prediction, unit):
    other = Prediction(prediction.standard, unit * SHIFT, unit * SCALE, ("a", "b"))
    for name in ("members", "mixture"):
        with pytest.raises(ValueError, match=r"'[ab]', whose labels have .* use std, log_prob or quantiles, or change"):
            getattr(other, name)
    np.testing.assert_allclose(other.std, unit * prediction.std, rtol=1e-6)


@pytest.mark.parametrize("levels", [0, 1.0, [0.5, 2], [[0.5]], [np.nan]])
def test_refuses_levels(prediction, levels):
    with pytest.raises(ValueError, match="levels must lie between 0 and 1"):
        prediction.quantiles(levels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.log_prob(np.zeros((2, 1))), r"y must have shape \(2, 2\), .*got \(2, 1\)"),
        (lambda p: p.log_prob([0.0, 1]), r"y must have shape \(2, 2\), .*got \(2,\)"),
        (lambda p: p.log_prob(np.zeros((5, 2))), r"y must have shape \(2, 2\), .*got \(5, 2\)"),
        (lambda p: p.density(2, [0.0]), r"output must be 0 to 1 .*got 2"),
        (lambda p: p.density(-1, [0.0]), r"output must be an integer >= 0, got -1"),
        (lambda p: p.density(True, [0.0]), r"output must be an integer >= 0, got True"),
        (lambda p: p.density(0.0, [0.0]), r"output must be an integer >= 0, got 0.0"),
        (lambda p: p.density(np.array([0, 1]), [0.0]), r"output must be an integer >= 0, got array"),
        (lambda p: p.samples(2, seed="a"), r"seed must be an integer from 0 to 2\*\*32 - 1, got 'a'"),
        (lambda p: p.samples(2, seed=-1), r"seed must be an integer from 0 to 2\*\*32 - 1, got -1"),
        (lambda p: p.density(0, 0.0), r"y of shape \(G,\), got 0 and \(\)"),
        (lambda p: p.samples(-1), "n must be an integer >= 0, got -1"),
        (lambda p: p.samples(2.5), "n must be an integer >= 0, got 2.5"),
    ],
)
def test_other_shapes_are_refused(prediction, call, message):
    with pytest.raises(ValueError, match=message):
        call(prediction)
