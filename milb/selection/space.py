"""Pool and labelled points in a space of features: distances, and greedy picking by them.

Distances are squared Euclidean, from differences: a norm expanded into products would give points that coincide a
distance of rounding error. Features lie transposed, (d, N), so that one labelled point is compared with many pool
points by vector instructions, and no (N, n_labelled) array exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike

from milb.devices import by_backend
from milb.mixture import is_concrete
from milb.selection.scores import checked_available

_LANES = (512, 2**20)  # pool points compared at once with one labelled point, on a CPU and on an accelerator


class Space(NamedTuple):
    """Features (d, N) of the pool, (L, d) of the labelled buffer, and who counts; all of them finite."""

    features: Array
    labelled: Array
    available: Array
    usable: Array  # available and finite: others are picked only when nothing else is left
    labelled_mask: Array
    unit: Array  # that features and labelled are expressed in


def checked_space(
    features: ArrayLike,
    labelled_features: ArrayLike,
    k: int,
    available: ArrayLike | None,
    labelled_mask: ArrayLike | None,
) -> Space:
    """A Space, once its arrays are known to make sense; errors as in `milb.selection.k_center`."""
    features, labelled = jnp.asarray(features), jnp.asarray(labelled_features)
    if features.ndim != 2 or labelled.ndim != 2 or features.shape[1] != labelled.shape[1]:
        raise ValueError(
            f"features must be (N, d) and labelled_features (L, d), got {features.shape} and {labelled.shape}"
        )
    if not features.shape[1]:
        raise ValueError(f"features must have at least one column, got {features.shape}")
    features, labelled = (rows.astype(jnp.result_type(rows, jnp.float32)) for rows in (features, labelled))
    available = checked_available(len(features), k, available)
    labelled_mask = jnp.ones(len(labelled), bool) if labelled_mask is None else jnp.asarray(labelled_mask)
    if labelled_mask.shape != (len(labelled),) or labelled_mask.dtype != bool:
        raise ValueError(
            f"labelled_mask must be a boolean mask of shape ({len(labelled)},), "
            f"got {labelled_mask.dtype} {labelled_mask.shape}"
        )
    if is_concrete(features, labelled, available, labelled_mask):
        for name, rows, counts in (("features", features, available), ("labelled_features", labelled, labelled_mask)):
            bad = np.flatnonzero(np.asarray(counts) & ~np.isfinite(np.asarray(rows)).all(1))
            if len(bad):
                raise ValueError(f"{name} must be finite on rows that count; row {bad[0]} is not")
    return _space(features, labelled, available, labelled_mask)


@jax.jit
def _space(features: Array, labelled: Array, available: Array, labelled_mask: Array) -> Space:
    usable = available & jnp.isfinite(features).all(1)
    labelled_mask = labelled_mask & jnp.isfinite(labelled).all(1)
    features = jnp.where(usable[:, None], features, 0)
    labelled = jnp.where(labelled_mask[:, None], labelled, 0)
    # No pick depends on the unit of all features together; in this one, squared distances cannot overflow.
    largest = jnp.maximum(jnp.abs(features).max(initial=0), jnp.abs(labelled).max(initial=0))
    unit = jnp.where(largest > 0, largest, 1)
    features, labelled = features / unit, labelled / unit
    return Space(features.T, labelled, available, usable, labelled_mask, unit)


class Nearest(NamedTuple):
    """Squared distance of every pool row to its nearest centre, (N,), and which centre that is."""

    distance: Array
    centre: Array


def nearest_labelled(space: Space) -> Nearest:
    """Distance inf and centre 0 while nothing is labelled."""
    n_features, n = space.features.shape
    lanes = min(by_backend(*_LANES), n)
    padded = jnp.pad(space.features, ((0, 0), (0, -n % lanes))).reshape(n_features, -1, lanes)

    def of_block(block: Array) -> Nearest:
        def look(nearest: Nearest, centre: tuple[Array, Array, Array]) -> tuple[Nearest, None]:
            index, point, counts = centre
            distance = jnp.where(counts, ((block - point[:, None]) ** 2).sum(0), jnp.inf)
            return _nearer(nearest, distance, index), None

        start = Nearest(jnp.full(lanes, jnp.inf, block.dtype), jnp.zeros(lanes, int))
        centres = (jnp.arange(len(space.labelled)), space.labelled, space.labelled_mask)
        return jax.lax.scan(look, start, centres)[0]

    blocks = jax.lax.map(of_block, padded.transpose(1, 0, 2))
    return jax.tree.map(lambda leaf: leaf.reshape(-1)[:n], blocks)


def _nearer(nearest: Nearest, distance: Array, centre: Array) -> Nearest:
    closer = distance < nearest.distance
    return Nearest(jnp.where(closer, distance, nearest.distance), jnp.where(closer, centre, nearest.centre))


def greedy(space: Space, k: int, first: Array, gain: Callable[[Nearest], Array], nearest: Nearest) -> Array:
    """k picks: the best by `first`, then again and again the best by `gain` of the nearest centres so far."""
    n_labelled = len(space.labelled)

    def pick(state: tuple[Nearest, Array, Array], round_index: Array) -> tuple[tuple[Nearest, Array, Array], Array]:
        nearest, left, values = state
        row = best_left(values, left, space.usable)
        distance = ((space.features - space.features[:, row][:, None]) ** 2).sum(0)
        nearest = _nearer(nearest, distance, n_labelled + round_index)
        return (nearest, left.at[row].set(False), gain(nearest)), row

    _, rows = jax.lax.scan(pick, (nearest, space.available, first), jnp.arange(k))
    return rows


def best_left(values: Array, left: Array, usable: Array) -> Array:
    """First row of the largest value among those left: usable ones first."""
    good = left & usable
    candidates = jnp.where(good.any(), good, left)
    return jnp.argmax(jnp.where(candidates, jnp.where(usable, jnp.nan_to_num(values), 0), -jnp.inf))


def distance_to_mean(space: Space) -> Array:
    """Squared distance of every pool row to the mean of the usable ones, (N,)."""
    mean = space.features.sum(1) / jnp.maximum(space.usable.sum(), 1)
    return ((space.features - mean[:, None]) ** 2).sum(0)


def std(features: Array, counts: Array) -> Array:
    """Population standard deviation of each feature over the rows that count."""
    n = jnp.maximum(counts.sum(), 1)
    centred = jnp.where(counts[None], features - (jnp.where(counts[None], features, 0).sum(1) / n)[:, None], 0)
    largest = jnp.abs(centred).max(1)  # squared in a unit of its own, or a small feature beside a large one would be 0
    unit = jnp.where(largest > 0, largest, 1)
    return unit * jnp.sqrt(((centred / unit[:, None]) ** 2).sum(1) / n)


def median(values: Array, counts: Array) -> Array:
    """Median of the values that count: the mean of the middle two where their number is even."""
    rising = jnp.sort(jnp.where(counts, values, jnp.inf))
    n = counts.sum()
    return 0.5 * (rising[jnp.maximum(n - 1, 0) // 2] + rising[n // 2])
