"""Selectors: from one score a point to k points to label.

All take `available`, a mask of the rows that may be picked. Called with concrete arrays they check them; inside jit
they cannot, and then a score that is NaN or infinite counts as less than every finite one.
"""

from __future__ import annotations

import operator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Int

from milb.mixture import is_concrete


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
    scores, available = checked(scores, k, available)
    return _best(scores, k, available)


def top_k_ties_last(scores: ArrayLike, k: int, available: ArrayLike | None = None) -> Int[Array, "k"]:
    """As `top_k`, with ties to the highest index: how the released experiments sort. Arguments and errors alike."""
    scores, available = checked(scores, k, available)
    return len(scores) - 1 - _best(scores[::-1], k, available[::-1])


def checked(scores: ArrayLike, k: int, available: ArrayLike | None) -> tuple[Array, Array]:
    """Scores and mask as arrays, once they are known to make sense; errors as in `top_k`."""
    scores = jnp.asarray(scores)
    if scores.ndim != 1:
        raise ValueError(f"scores must have shape (N,), got {scores.shape}")
    available = jnp.ones(len(scores), bool) if available is None else jnp.asarray(available)
    if available.shape != scores.shape or available.dtype != bool:
        raise ValueError(f"available must be a boolean mask of shape {scores.shape}, got {available!r}")
    try:
        k = operator.index(k)
    except TypeError:
        raise ValueError(f"k must be an integer, got {k!r}") from None
    n_available = int(available.sum()) if is_concrete(available) else len(scores)
    if not 1 <= k <= n_available:
        raise ValueError(f"k must be between 1 and the {n_available} available rows, got {k}")
    if is_concrete(scores, available):
        bad = np.flatnonzero(np.asarray(available) & ~np.isfinite(np.asarray(scores)))
        if len(bad):
            raise ValueError(f"scores must be finite on available rows; row {bad[0]} has {scores[bad[0]]}")
    return scores, available


@partial(jax.jit, static_argnames="k")
def _best(scores: Array, k: int, available: Array) -> Array:
    # Sorted by two keys: no value of a score can put a row that is not available before one that is.
    rank = jnp.where(available, jnp.where(jnp.isfinite(scores), 0, 1), 2)
    falling = jnp.where(rank == 0, -scores, 0)
    _, _, order = jax.lax.sort((rank, falling, jnp.arange(len(scores))), num_keys=2, is_stable=True)
    return order[:k]
