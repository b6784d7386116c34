"""Quantiles and modes of a Gaussian mixture."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from milb.mixture import Mixture

N_CLIMBS, N_HALVINGS = 300, 40
SAME_MODE = 0.25  # standard deviations of a component: modes that lie closer are one


class Modes(NamedTuple):
    """The peaks of one density, the heaviest first: where they are, (M, D), and their shares, (M,), summing to 1.

    A peak's share is the weight of all components from whose mean the way uphill ends there.
    """

    locations: Float[np.ndarray, "M D"]
    shares: Float[np.ndarray, "M"]


@jax.jit
def quantiles(mixture: Mixture, levels: Float[Array, "Q"]) -> Float[Array, "Q B D"]:
    """Quantiles of each dimension by itself: where its distribution function is `levels`, each in (0, 1); bisection.

    Args:
        mixture: log_weights (B, K).
    """
    std = jnp.sqrt(mixture.variances)
    shape = (len(levels), *mixture.means.shape[:1], mixture.n_dimensions)
    low = jnp.broadcast_to((mixture.means - 10 * std).min(-2)[None], shape)
    high = jnp.broadcast_to((mixture.means + 10 * std).max(-2)[None], shape)
    weights = jnp.exp(mixture.log_weights)[None, ..., None]

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        below = (weights * norm.cdf((middle[:, :, None] - mixture.means[None]) / std[None])).sum(-2)
        short = below < levels[:, None, None]
        return jnp.where(short, middle, ends[0]), jnp.where(short, ends[1], middle)

    low, high = jax.lax.fori_loop(0, N_HALVINGS, halve, (low, high))
    return 0.5 * (low + high)


@jax.jit
def climb(mixture: Mixture) -> Float[Array, "B K D"]:
    """Uphill from every component's mean: to the mode that it belongs to. The mixture has log_weights (B, K).

    By the fixed point y = (sum_m r_m(y) C_m^-1)^-1 sum_m r_m(y) C_m^-1 mu_m, with r_m the responsibilities, which
    never goes down (Carreira-Perpinan 2000).
    """
    means, variances = mixture.means[:, None], mixture.variances[:, None]
    around = Mixture(mixture.log_weights[:, None], means, variances)

    def step(_: int, y: Array) -> Array:
        responsibility = jax.nn.softmax(around.component_log_prob(y), axis=-1)[..., None]
        precision = responsibility / variances
        return (precision * means).sum(-2) / precision.sum(-2)

    return jax.lax.fori_loop(0, N_CLIMBS, step, mixture.means)


def modes(mixture: Mixture) -> list[Modes]:
    """The modes of each of B mixtures, log_weights (B, K)."""
    tops, weights = np.asarray(climb(mixture)), np.exp(np.asarray(mixture.log_weights, float))
    std = np.sqrt(np.asarray(mixture.variances))
    return [_merged(*of_point) for of_point in zip(tops, weights, std, strict=True)]


def _merged(tops: np.ndarray, weights: np.ndarray, std: np.ndarray) -> Modes:
    locations: list[np.ndarray] = []
    shares: list[float] = []
    for m in np.argsort(-weights, kind="stable"):
        near = [i for i, location in enumerate(locations) if (np.abs(tops[m] - location) < SAME_MODE * std[m]).all()]
        if near:
            shares[near[0]] += weights[m]
        else:
            locations.append(tops[m])
            shares.append(weights[m])
    order = np.argsort(-np.array(shares), kind="stable")
    return Modes(np.array(locations)[order], np.array(shares)[order] / np.sum(shares))
