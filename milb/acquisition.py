"""Acquisition functions: how much a label at each point would teach the ensemble, one score a point.

Every acquisition has the signature

    acquisition(keys, ensemble, x, options) -> scores

    keys: (B,) PRNG keys, one a point, for acquisitions that draw; a point's key does not depend on its block.
    ensemble: a trained `milb.mdn.Ensemble`.
    x: (B, dx), raw units.
    options: `milb.protocol.Options`.
    scores: (B,), larger is better, finite.

`milb.scoring.score_pool` computes one over a whole pool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from milb import bounds
from milb.mdn import VARIANCE_FLOOR, Ensemble, features, first_member, predict
from milb.mixture import Mixture
from milb.protocol import Options

LARGEST_SCORE = 1e30  # so that sums and medians of scores are finite, too
MONTE_CARLO_DRAWS = 64
Acquisition = Callable[[Array, Ensemble, Array, Options], Array]


def random(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Float[Array, "B"]:
    """Uniform(0, 1), whatever x is: the baseline."""
    del ensemble, x, options
    return jax.vmap(jax.random.uniform)(keys)


def epistemic_variance(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """Variance over members of the members' means, in squared units of y; paper equation (var_decomp).

    Its mean over output dimensions or their sum, as `options.variance` says.
    """
    del keys
    return _epistemic_variance(predict(ensemble, x), options)


def negative_log_overlap_gap(
    keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options
) -> Float[Array, "B"]:
    """-log of a gap in nats: ranks exactly as MI-LB does, with no ties; see `milb.bounds.log_overlap_gap`."""
    del keys, options
    return _finite(-bounds.log_overlap_gap(_floored(predict(ensemble, x))))


def mi_lower_bound(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """The value of MI-LB, in nats, by `milb.bounds.mi_lower_bound`: for rules that need values, not ranks."""
    del keys, options
    return bounds.mi_lower_bound(_floored(predict(ensemble, x)))


def mi_lower_bound_released(
    keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options
) -> Float[Array, "B"]:
    """MI-LB as the released experiments compute it: a float32 difference of two entropy bounds.

    Where MI-LB saturates, ranking by it is ranking by rounding error; it is here to reproduce the paper's tables.
    """
    del keys, options
    members = _floored(predict(ensemble, x))
    return bounds.entropy_lower_bound(members.marginal()) - bounds.entropy_upper_bound(members).mean(0)


def negative_log_matched_gap(
    keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options
) -> Float[Array, "B"]:
    """-log of a gap in nats: ranks as the matched difference does, with no ties; see `milb.bounds.log_matched_gap`."""
    del keys, options
    return _finite(-bounds.log_matched_gap(_floored(predict(ensemble, x))))


def mi_matched(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """The value of the matched difference of Huber's lower bounds, in nats, by `milb.bounds.mi_matched`."""
    del keys, options
    return bounds.mi_matched(_floored(predict(ensemble, x)))


def mi_pairwise(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """Pairwise disagreement of the members, in nats, by `milb.bounds.mi_pairwise`: it does not saturate."""
    del keys, options
    return bounds.mi_pairwise(_floored(predict(ensemble, x)))


def negative_log_disagreement_gap(
    keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options, self_weight: float = 1.0
) -> Float[Array, "B"]:
    """-log of a gap in nats: ranks as `milb.bounds.mi_disagreement` does, with no ties; 1 is the member-level bound."""
    del keys, options
    return _finite(-bounds.log_disagreement_gap(_floored(predict(ensemble, x)), self_weight))


def mi_certificate(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """The best certified lower bound, in nats, by `milb.bounds.mi_certificate`: it saturates at log E."""
    del keys, options
    return bounds.mi_certificate(_floored(predict(ensemble, x)))


def mi_monte_carlo(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """The mutual information itself, in nats, estimated from MONTE_CARLO_DRAWS draws of each member at each point."""
    del options
    estimate = partial(bounds.mi_monte_carlo, n_samples=MONTE_CARLO_DRAWS, block_size=16)
    return jax.vmap(estimate, in_axes=(0, 1))(keys, _floored(predict(ensemble, x))).estimate


def paide(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """Pairwise-distance estimate of the mutual information, in nats, after Berry and Meger 2023 (PaiDEs): a baseline.

    Each member is one Gaussian, of its mixture's mean and variances; distances are Bhattacharyya's. No bound, unlike
    `milb.bounds.mi_lower_bound_members`, which sees the modes; it saturates at log E.
    """
    del keys, options
    members = _floored(predict(ensemble, x))
    mean, variance = members.mean()[..., None, :], members.variance()[..., None, :]
    return bounds.mi_lower_bound_members(Mixture(jnp.zeros_like(mean[..., 0]), mean, variance))


def member_means(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """Features (B, E * D): the means that all members predict, in units of y."""
    del keys, options
    return predict(ensemble, x).mean().transpose(1, 0, 2).reshape(len(x), -1)


def last_layer(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """Features (B, width): what the heads of member 0 see."""
    del keys, options
    return features(first_member(ensemble), x)[0]


def fisher_factors(keys: Key[Array, "B"], ensemble: Ensemble, x: Float[Array, "B dx"], options: Options) -> Array:
    """BAIT's embedding of each point in factors, (B, K * D + width): coefficients, then the features of `last_layer`.

    The embedding is the gradient of log p(y | x) by the mean head's weights of member 0, at one y drawn from it.
    """
    member = first_member(ensemble)
    mixture = _floored(jax.tree.map(lambda leaf: leaf[0], predict(member, x)))
    y = jax.vmap(lambda mixture, key: mixture.sample(key))(mixture, keys)
    coefficients = fisher_coefficients(mixture, y, ensemble.outputs.scale)
    return jnp.concatenate([coefficients, features(member, x)[0]], axis=1)


def fisher_coefficients(
    mixture: Mixture, y: Float[Array, "B D"], output_scale: Float[Array, "D"]
) -> Float[Array, "B KD"]:
    """Responsibility times (y - mean) / variance, per component and dimension, by the network's own output units."""
    responsibility = jax.nn.softmax(mixture.component_log_prob(y), axis=-1)[..., None]
    slope = responsibility * (y[:, None] - mixture.means) / mixture.variances * output_scale[None, None]
    return slope.reshape(len(y), -1)


ACQUISITIONS: dict[str, Acquisition] = {
    "random": random,
    "variance": epistemic_variance,
    "negative-log-overlap-gap": negative_log_overlap_gap,
    "mi-lb": mi_lower_bound,
    "mi-lb-released": mi_lower_bound_released,
    "negative-log-matched-gap": negative_log_matched_gap,
    "mi-matched": mi_matched,
    "mi-pairwise": mi_pairwise,
    "negative-log-disagreement-gap": negative_log_disagreement_gap,
    "mi-certificate": mi_certificate,
    "mi-monte-carlo": mi_monte_carlo,
    "paide": paide,
}


def _floored(members: Mixture) -> Mixture:
    return Mixture(members.log_weights, members.means, jnp.maximum(members.variances, VARIANCE_FLOOR))


def _finite(scores: Array) -> Array:
    """-log gap, and a number where a gap is 0: where there is nobody to overlap with, or nobody near."""
    return jnp.minimum(scores, LARGEST_SCORE)  # NaN stays


def _epistemic_variance(members: Mixture, options: Options) -> Array:
    return {"mean": jnp.mean, "trace": jnp.sum}[options.variance](members.mean().var(0), axis=-1)
