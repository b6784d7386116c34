"""Selectors that look at scores only."""

from __future__ import annotations

import operator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from milb.mixture import PRNGKey, is_concrete
from milb.protocol import LARGEST_SETTING


def top_k(scores: ArrayLike, k: int, available: ArrayLike | None = None) -> Int[Array, "k"]:
    """The k available rows with the highest scores, best first, ties to the lowest index.

    Args:
        scores: (N,), larger is better.
        k: how many, 1 .. number of available rows.
        available: (N,), rows that may be picked; None for all.

    Returns:
        (k,) distinct row indices.

    Raises:
        ValueError: wrong shapes, k out of range, NaN or infinite scores among the available rows. Inside jit only
            shapes and k <= N can be checked.
    """
    scores, available = checked_scores(scores, k, available)
    return _best(scores, int(k), available)


def top_k_ties_last(scores: ArrayLike, k: int, available: ArrayLike | None = None) -> Int[Array, "k"]:
    """As `top_k`, with ties to the highest index: how the released experiments sort. Arguments and errors alike."""
    scores, available = checked_scores(scores, k, available)
    return len(scores) - 1 - _best(scores[::-1], int(k), available[::-1])


def sbal(
    key: PRNGKey, scores: ArrayLike, k: int, temperature: float = 1.0, available: ArrayLike | None = None
) -> Int[Array, "k"]:
    """Stochastic batch acquisition: k draws without replacement from softmax(scores / temperature).

    By Gumbel-top-k: the k largest of scores / temperature + Gumbel noise. Towards temperature 0 it is `top_k`,
    towards infinity a uniform draw; where scores are all but equal it is uniform at any temperature.

    Args:
        key: consumed here.
        scores, k, available: as in `top_k`.
        temperature: positive, in the units of the scores.

    Returns:
        (k,) distinct row indices, in the order of the draws.

    Raises:
        ValueError: temperature not positive or above 1e30; the rest as in `top_k`.

    Source: Kirsch et al. 2023, softmax variant; paper appendix (exp_multimodal).
    """
    scores, available = checked_scores(scores, k, available)
    if is_concrete(temperature) and not 0 < temperature <= LARGEST_SETTING:
        raise ValueError(f"temperature must be positive and at most 1e30, got {temperature}")
    # Both in units of the temperature where that is above 1, of the scores where it is below: nothing overflows.
    unit = jnp.maximum(temperature, 1.0)
    noise = jax.random.gumbel(key, scores.shape, scores.dtype)
    return _best(scores / unit + temperature / unit * noise, int(k), available)


def checked_scores(scores: ArrayLike, k: int, available: ArrayLike | None) -> tuple[Array, Array]:
    """Scores and mask as arrays, once they are known to make sense; errors as in `top_k`."""
    scores = jnp.asarray(scores)
    if scores.ndim != 1:
        raise ValueError(f"scores must have shape (N,), got {scores.shape}")
    scores = scores.astype(jnp.result_type(scores, jnp.float32))
    available = checked_available(len(scores), k, available)
    if is_concrete(scores, available):
        bad = np.flatnonzero(np.asarray(available) & ~np.isfinite(np.asarray(scores)))
        if len(bad):
            raise ValueError(f"scores must be finite on available rows; row {bad[0]} has {scores[bad[0]]}")
    return scores, available


def checked_available(n: int, k: int, available: ArrayLike | None) -> Array:
    """The mask of n rows as an array, once k of them can be picked."""
    available = jnp.ones(n, bool) if available is None else jnp.asarray(available)
    if available.shape != (n,) or available.dtype != bool:
        raise ValueError(f"available must be a boolean mask of shape ({n},), got {available.dtype} {available.shape}")
    try:
        operator.index(k)
    except TypeError:
        raise ValueError(f"k must be an integer, got {k!r}") from None
    n_available = int(available.sum()) if is_concrete(available) else n
    if not 1 <= k <= n_available:
        raise ValueError(f"k must be between 1 and the {n_available} available rows, got {k}")
    return available


@partial(jax.jit, static_argnames="k")
def _best(scores: Array, k: int, available: Array) -> Array:
    # Sorted by two keys: no value of a score can put a row that is not available before one that is.
    rank = jnp.where(available, jnp.where(jnp.isfinite(scores), 0, 1), 2)
    falling = jnp.where(rank == 0, -scores, 0)
    _, _, order = jax.lax.sort((rank, falling, jnp.arange(len(scores))), num_keys=2, is_stable=True)
    return order[:k]
