"""What a run refuses: seeds, datasets, models and picks that would spoil it silently."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from milb.mdn import Ensemble
from milb.protocol import Protocol

LARGEST_VALUE = 1e15  # of a dataset: its square is still far within float32


class Data(NamedTuple):
    """A dataset on the device: pool (N, dx) and (N, D), test set (T, dx) and (T, D)."""

    x: Array
    y: Array
    test_x: Array
    test_y: Array


def checked_seed(name: str, seed: Any) -> int:
    """The seed as an int; ValueError unless it is one that JAX tells from all others."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= operator.index(seed) < 2**32:
        raise ValueError(f"{name} must be an integer from 0 to 2**32 - 1, got {seed!r}")
    return operator.index(seed)


def checked_data(dataset: Any, protocol: Protocol) -> Data:
    """The dataset as arrays, once its parts fit together and the protocol; ValueError says what does not."""
    x, y, test_x, test_y = (np.asarray(array, np.float32) for array in dataset)
    for name, array, n in (("x", x, protocol.n_pool), ("y", y, protocol.n_pool), ("test_x", test_x, protocol.n_test),
                           ("test_y", test_y, protocol.n_test)):  # fmt: skip
        if array.ndim != 2 or len(array) != n:
            raise ValueError(f"the dataset's {name} must have shape ({n}, columns), got {array.shape}")
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            raise ValueError(f"the dataset's {name} is {array[tuple(bad[0])]} in row {bad[0][0]}, column {bad[0][1]}")
        huge = np.argwhere(np.abs(array) > LARGEST_VALUE)
        if len(huge):
            raise ValueError(
                f"the dataset's {name} is {array[tuple(huge[0])]:g} in row {huge[0][0]}, column {huge[0][1]}: beyond "
                "1e15, too large to square; change its unit"
            )
    if x.shape[1] != test_x.shape[1] or y.shape[1] != test_y.shape[1]:
        raise ValueError(f"pool and test columns differ: x {x.shape}, {test_x.shape}; y {y.shape}, {test_y.shape}")
    return Data(*map(jnp.asarray, (x, y, test_x, test_y)))


def check_columns(name: str, labelled: np.ndarray, floor: float = 0) -> None:
    """ValueError unless labels are finite and not too large to square.

    Warns of constant columns, and of those that vary so little in their unit that this floor of predicted variances
    is seen: see `milb.training.fit`.
    """
    bad = np.argwhere(~np.isfinite(labelled))
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"{name} is {labelled[row, column]} in labelled row {row}, column {column}; it must be finite")
    mean, std = labelled.mean(0, dtype=np.float64), labelled.std(0, dtype=np.float64)
    huge = np.flatnonzero((np.abs(mean) > LARGEST_VALUE) | (std > LARGEST_VALUE))
    if len(huge):
        raise ValueError(f"{name} is beyond 1e15 in column(s) {huge.tolist()}, too large to square: change its unit")
    low, high = labelled.min(0), labelled.max(0)
    constant = np.flatnonzero(high - low <= 1e-6 * np.maximum(np.abs(low), np.abs(high)))
    if len(constant):
        warnings.warn(f"{name} is constant over the labels in column(s) {constant.tolist()}: scaled by 1", stacklevel=4)
    small = np.setdiff1d(np.flatnonzero(std < 100 * math.sqrt(floor)), constant)
    if len(small):
        warnings.warn(
            f"{name} has a standard deviation of {std[small[0]]:.2g} in column(s) {small.tolist()}: predicted "
            f"variances get {floor:g} added in {name}'s own unit, so choose a smaller one, such as µm for m",
            stacklevel=4,
        )


def check_trained(ensemble: Ensemble, test_nll: np.ndarray, where: str) -> None:
    """FloatingPointError when a model or its test NLL is not finite."""
    finite = bool(_all_finite(ensemble))
    if not finite or not np.isfinite(test_nll).all():
        what = "the test NLL" if finite else "the network"
        raise FloatingPointError(f"{where}: training has diverged, {what} is not finite; try a lower learning_rate")


@jax.jit
def _all_finite(ensemble: Ensemble) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(ensemble)]).all()


def checked_picks(indices: Any, available: np.ndarray, k: int, where: str) -> np.ndarray:
    """A strategy's answer as dataset rows, once it is k different ones that may be picked; ValueError if not."""
    picked = np.asarray(indices)
    if picked.shape != (k,) or not np.issubdtype(picked.dtype, np.integer):
        raise ValueError(f"{where}: the strategy must return {k} integers, got {picked.dtype} of shape {picked.shape}")
    wrong = [row for row in picked.tolist() if not 0 <= row < len(available) or not available[row]]
    if wrong:
        raise ValueError(f"{where}: the strategy picked row {wrong[0]}, which is labelled already or not in the pool")
    if len(set(picked.tolist())) < k:
        raise ValueError(f"{where}: the strategy picked a row twice: {picked.tolist()}")
    return picked.astype(np.int32)
