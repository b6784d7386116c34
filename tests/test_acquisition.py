"""Acquisitions: the common suite over the registry, and what each of them is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from milb import bounds
from milb.acquisition import ACQUISITIONS, VARIANCE_FLOOR
from milb.history import saturation
from milb.mdn import predict
from milb.mixture import Mixture
from milb.protocol import Options
from milb.scoring import score_pool
from milb.training import fit

pytestmark = pytest.mark.slow

KEY = jax.random.key(3)


COSTLY = {"mi-certificate", "mi-monte-carlo", "paide", "mi-matched", "negative-log-disagreement-gap"}  # to compile
every_acquisition = pytest.mark.parametrize(
    "acquisition",
    [
        pytest.param(function, id=name, marks=pytest.mark.exhaustive if name in COSTLY else ())
        for name, function in ACQUISITIONS.items()
    ],
)


@every_acquisition
def test_one_finite_score_a_point(acquisition, ensemble, data):
    scores = score_pool(acquisition, KEY, ensemble, data.x)
    assert scores.shape == (50,) and np.isfinite(scores).all()


@pytest.mark.exhaustive
@every_acquisition
def test_one_member_of_one_component_disagrees_with_nobody(acquisition, data, small_protocol):
    alone = fit(jax.random.key(0), data.x[:20], data.y[:20], small_protocol.replace(n_members=1, n_components=1))
    scores = np.asarray(score_pool(acquisition, KEY, alone, data.x[:6]))
    assert np.isfinite(scores).all() and np.isfinite(np.median(scores))


@pytest.mark.sample(7)
@every_acquisition
@pytest.mark.parametrize("block_size", [pytest.param(1, marks=pytest.mark.exhaustive), 7, 64])
def test_scores_do_not_depend_on_blocks(acquisition, ensemble, data, block_size):
    whole = score_pool(acquisition, KEY, ensemble, data.x)
    np.testing.assert_allclose(
        score_pool(acquisition, KEY, ensemble, data.x, Options(block_size=block_size)), whole, rtol=1e-5, atol=1e-5
    )


@every_acquisition
def test_scores_move_with_their_points(acquisition, ensemble, data):
    if acquisition in (ACQUISITIONS["random"], ACQUISITIONS["mi-monte-carlo"]):
        pytest.skip("drawn for the row, not only for what is in it")
    order = np.random.default_rng(0).permutation(50)
    scores = np.asarray(score_pool(acquisition, KEY, ensemble, data.x))
    shuffled = score_pool(acquisition, KEY, ensemble, data.x[order])
    np.testing.assert_allclose(shuffled, scores[order], rtol=1e-5, atol=1e-5)


@every_acquisition
def test_jit_and_second_call_do_not_retrace(acquisition, ensemble, data):
    calls = []

    def counted(*arguments):
        calls.append(1)
        return acquisition(*arguments)

    for key in jax.random.split(KEY, 3):
        score_pool(counted, key, ensemble, data.x)
    assert len(calls) == 1
    inside = jax.jit(lambda key, ensemble, x: score_pool(acquisition, key, ensemble, x))(KEY, ensemble, data.x)
    np.testing.assert_allclose(inside, score_pool(acquisition, KEY, ensemble, data.x), rtol=1e-5, atol=1e-5)


def test_random_is_uniform_and_follows_the_key(ensemble, data):
    x = np.tile(data.x, (40, 1))
    scores = np.asarray(score_pool(ACQUISITIONS["random"], KEY, ensemble, x))
    assert len(np.unique(scores)) > 1_990 and abs(scores.mean() - 0.5) < 0.03 and scores.min() >= 0 and scores.max() < 1
    other = score_pool(ACQUISITIONS["random"], jax.random.key(4), ensemble, x)
    assert not np.allclose(scores, other)


def test_epistemic_variance_is_the_variance_of_member_means(ensemble, data):
    means = np.asarray(predict(ensemble, data.x).mean(), np.float64)
    per_dimension = ((means - means.mean(0)) ** 2).mean(0)
    mean, trace = (
        score_pool(ACQUISITIONS["variance"], KEY, ensemble, data.x, Options(variance=v)) for v in ("mean", "trace")
    )
    np.testing.assert_allclose(mean, per_dimension.mean(1), rtol=1e-3)
    np.testing.assert_allclose(trace, per_dimension.sum(1), rtol=1e-3)


@pytest.mark.parametrize("family", ["multimodal", "double_well", "ternary", "single", "sharp", "agree"])
def test_epistemic_variance_of_reference(reference, family):
    from milb.acquisition import _epistemic_variance

    data = reference("acquisition")
    members = Mixture.from_logits(*(data[f"mix_{family}/{name}"] for name in ("logits", "means", "variances")))
    expected = data[f"mix_{family}/epistemic_variance_trace"]
    trace = np.asarray(_epistemic_variance(members, Options(variance="trace")))
    assert (np.abs(trace - expected) / (1 + np.abs(expected))).max() < 2e-5
    mean = _epistemic_variance(members, Options(variance="mean"))
    np.testing.assert_allclose(mean * members.n_dimensions, trace, rtol=1e-6)


def test_the_three_forms_of_mi_lb_are_one_function(ensemble, data):
    gap, value, released = (
        np.asarray(score_pool(ACQUISITIONS[name], KEY, ensemble, data.x), np.float64)
        for name in ("negative-log-overlap-gap", "mi-lb", "mi-lb-released")
    )
    maximum = float(bounds.mi_lower_bound_maximum(jnp.log(jnp.full(2, 0.5)), 20))
    assert maximum == pytest.approx(np.log(2) - 10 * (1 - np.log(2)), rel=1e-6)
    np.testing.assert_allclose(maximum - np.exp(-gap), value, atol=1e-4)
    np.testing.assert_allclose(released, value, atol=1e-4)
    recorded = np.asarray(saturation(ensemble, jnp.asarray(data.x)))
    np.testing.assert_allclose(recorded[:, 0], np.exp(-gap), atol=1e-5)
    certificate = score_pool(ACQUISITIONS["mi-certificate"], KEY, ensemble, data.x)
    np.testing.assert_allclose(recorded[:, 1], certificate, atol=1e-5)


def test_raw_variances_are_floored(ensemble, data):
    sharp = ensemble.__class__(
        ensemble.parameters, ensemble.inputs,
        ensemble.outputs.__class__(ensemble.outputs.mean, jnp.full_like(ensemble.outputs.scale, 1e-6)),
        ensemble.network,
    )  # fmt: skip
    members = predict(sharp, data.x)
    assert (members.variances < VARIANCE_FLOOR).all()
    floored = Mixture(members.log_weights, members.means, jnp.full_like(members.variances, VARIANCE_FLOOR))
    scores = score_pool(ACQUISITIONS["mi-lb"], KEY, sharp, data.x)
    np.testing.assert_allclose(scores, bounds.mi_lower_bound(floored), rtol=1e-5)


def test_matched_gap_and_difference_are_one_function(ensemble, data):
    gap, value = (
        np.asarray(score_pool(ACQUISITIONS[name], KEY, ensemble, data.x), np.float64)
        for name in ("negative-log-matched-gap", "mi-matched")
    )
    np.testing.assert_allclose(np.log(2) - np.exp(-gap), value, atol=1e-6)


def test_monte_carlo_lies_between_certificate_and_log_e(ensemble, data):
    x = np.repeat(data.x[:5], 200, axis=0)  # keys belong to rows: each point is estimated 200 times
    estimates = np.asarray(score_pool(ACQUISITIONS["mi-monte-carlo"], KEY, ensemble, x)).reshape(5, 200)
    error = 5 * estimates.std(1) / np.sqrt(200)
    assert (error > 0).all() and (estimates.mean(1) <= np.log(2) + error).all()
    certificate = score_pool(ACQUISITIONS["mi-certificate"], KEY, ensemble, data.x[:5])
    assert (certificate <= estimates.mean(1) + error).all()


def test_paide_is_the_formula_on_moments(ensemble, data):
    members = predict(ensemble, data.x)
    (one, other), (v, w) = (np.asarray(moment, np.float64) for moment in (members.mean(), members.variance()))
    distance = ((one - other) ** 2 / (v + w) / 4 + np.log((v + w) ** 2 / (4 * v * w)) / 4).sum(-1)
    expected = np.log(2) - np.log1p(np.exp(-distance))
    np.testing.assert_allclose(score_pool(ACQUISITIONS["paide"], KEY, ensemble, data.x), expected, atol=1e-5)


def test_members_that_disagree_score_higher():
    """Two members at distance d: what the acquisition sees must grow with d, and match Monte Carlo's order."""
    distance = np.linspace(0, 6, 7, dtype=np.float32)
    means = np.stack([0 * distance, distance])[:, :, None, None]
    members = Mixture(jnp.zeros((2, 7, 1)), jnp.asarray(means), jnp.ones((2, 7, 1, 1)))
    truth = bounds.mi_monte_carlo(jax.random.key(0), members, 4_096)
    assert (np.diff(truth.estimate) > 0).all()
    assert (np.diff(bounds.mi_lower_bound(members)) > 0).all()
