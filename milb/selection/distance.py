"""Selectors that spread their picks out in a space of features."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from milb.mixture import is_concrete
from milb.protocol import LARGEST_SETTING
from milb.selection.scores import checked_scores
from milb.selection.space import (
    Nearest,
    Space,
    checked_space,
    distance_to_mean,
    greedy,
    median,
    nearest_labelled,
    std,
)


def k_center(
    features: ArrayLike,
    labelled_features: ArrayLike,
    k: int,
    available: ArrayLike | None = None,
    labelled_mask: ArrayLike | None = None,
) -> Int[Array, "k"]:
    """k-center-greedy: again and again the point farthest from everything labelled or picked.

    With nothing labelled it starts at the point farthest from the mean of the available rows.

    Args:
        features: (N, d), of all pool rows.
        labelled_features: (L, d), a buffer of the labelled points' features; L = 0 is allowed.
        k: how many, 1 .. number of available rows.
        available: (N,), rows that may be picked; None for all.
        labelled_mask: (L,), rows of the buffer that count; None for all.

    Returns:
        (k,) distinct row indices, in the order of the picks; ties to the lowest index.

    Raises:
        ValueError: wrong shapes, k out of range, features that are not finite on available or labelled rows. Inside
            jit only shapes and k <= N can be checked.

    Source: Sener and Savarese 2018; paper appendix (exp_multimodal).
    """
    return _k_center(checked_space(features, labelled_features, k, available, labelled_mask), int(k))


def max_dist(
    scores: ArrayLike,
    features: ArrayLike,
    labelled_features: ArrayLike,
    k: int,
    score_weight: float = 1.0,
    available: ArrayLike | None = None,
    labelled_mask: ArrayLike | None = None,
) -> Int[Array, "k"]:
    """Farthest-point sampling weighted by scores: largest squared distance times (1 + score_weight * score).

    Scores are scaled to 0 .. 1 and features to standard deviation 1 (floored at 1e-8) over the available rows. The
    first pick is the highest score among the half of the available rows farthest from the labelled ones; with
    nothing labelled, the highest score of all.

    Args:
        scores: (N,), larger is better.
        features, labelled_features, k, available, labelled_mask: as in `k_center`.
        score_weight: 0 or more; 0 is pure farthest-point sampling after the first pick.

    Returns:
        (k,) distinct row indices, in the order of the picks; ties to the lowest index.

    Raises:
        ValueError: score_weight not in 0 .. 1e30, scores not finite on available rows; the rest as `k_center`.

    Source: Holzmueller et al. 2023 as used in the paper's released experiments.
    """
    scores, _ = checked_scores(scores, k, available)
    if is_concrete(score_weight) and not 0 <= score_weight <= LARGEST_SETTING:
        raise ValueError(f"score_weight must be 0 or more and at most 1e30, got {score_weight}")
    space = checked_space(features, labelled_features, k, available, labelled_mask)
    if len(scores) != space.features.shape[1]:
        raise ValueError(f"scores and features must have one N, got {len(scores)} and {space.features.shape[1]}")
    return _max_dist(scores, space, score_weight, int(k))


def lcmd(
    features: ArrayLike,
    labelled_features: ArrayLike,
    k: int,
    weights: ArrayLike | None = None,
    available: ArrayLike | None = None,
    labelled_mask: ArrayLike | None = None,
) -> Int[Array, "k"]:
    """Largest-cluster maximum distance (LCMD-TP): the farthest point of the cluster that is worst represented.

    Centres are the labelled and the picked points; every available row belongs to its nearest centre. Each pick is
    the farthest point of the cluster whose squared distances, times `weights`, sum to most. With nothing labelled
    the first pick is that of `k_center`, distances to the mean times `weights`.

    Args:
        features, labelled_features, k, available, labelled_mask: as in `k_center`.
        weights: (N,), 0 or more: how much it matters that a row is near a centre; None for 1.

    Returns:
        (k,) distinct row indices, in the order of the picks; ties to the lowest index or oldest centre.

    Raises:
        ValueError: weights of another length, negative or not finite on available rows; the rest as `k_center`.

    Source: Holzmueller et al. 2023.
    """
    space = checked_space(features, labelled_features, k, available, labelled_mask)
    n = space.features.shape[1]
    weights, _ = checked_scores(jnp.ones(n) if weights is None else weights, k, available)
    if len(weights) != n:
        raise ValueError(f"weights and features must have one N, got {len(weights)} and {n}")
    if is_concrete(weights, space.available) and (np.asarray(weights)[np.asarray(space.available)] < 0).any():
        raise ValueError("weights must not be negative")
    return _lcmd(space, weights, int(k))


@partial(jax.jit, static_argnames="k")
def _k_center(space: Space, k: int) -> Array:
    nearest = nearest_labelled(space)
    first = jnp.where(space.labelled_mask.any(), nearest.distance, distance_to_mean(space))
    return greedy(space, k, first, lambda nearest: nearest.distance, nearest)


@partial(jax.jit, static_argnames="k")
def _max_dist(scores: Array, space: Space, score_weight: Array, k: int) -> Array:
    usable = space.usable & jnp.isfinite(scores)
    unit = jnp.maximum(std(space.features, usable), 1e-8 / space.unit)
    unit = jnp.where(unit > 0, unit, 1)  # of a feature that is 0 everywhere beside another in a huge unit
    space = space._replace(usable=usable, features=space.features / unit[:, None], labelled=space.labelled / unit[None])
    low = jnp.min(jnp.where(usable, scores, jnp.inf))
    high = jnp.max(jnp.where(usable, scores, -jnp.inf))
    scaled = jnp.where(usable, (scores - low) / jnp.where(high > low, high - low, 1), 0)
    nearest = nearest_labelled(space)
    far = nearest.distance >= median(nearest.distance, usable)
    first = jnp.where(far, scores - low, -1)
    largest = jnp.maximum(score_weight, 1.0)  # divided by: whatever the weight, nothing overflows
    weight = 1 / largest + score_weight / largest * scaled
    return greedy(space, k, first, lambda nearest: nearest.distance * weight, nearest)


@partial(jax.jit, static_argnames="k")
def _lcmd(space: Space, weights: Array, k: int) -> Array:
    usable = space.usable & jnp.isfinite(weights)
    space = space._replace(usable=usable)
    weights = jnp.where(usable, weights, 0)
    largest = weights.max()
    weights = weights / jnp.where(largest > 0, largest, 1)
    n_centres = len(space.labelled) + k

    def gain(nearest: Nearest) -> Array:
        weighted = jnp.where(usable, weights * nearest.distance, 0)
        sizes = jax.ops.segment_sum(weighted, nearest.centre, n_centres)
        # Clusters without a row left to pick cannot be the largest, whatever rounding says.
        largest = jnp.argmax(sizes)
        return jnp.where(nearest.centre == largest, weighted, -1)

    nearest = nearest_labelled(space)
    first = jnp.where(space.labelled_mask.any(), gain(nearest), weights * distance_to_mean(space))
    return greedy(space, k, first, gain, nearest)
