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

from milb.mdn import CONSTANT, SCALE_FLOOR, Ensemble
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
    names = ("x", "y", "test_x", "test_y")
    if len(dataset) != len(names):
        raise ValueError(f"a dataset is {len(names)} arrays, {', '.join(names)}; got {len(dataset)}")
    arrays = [unmasked(f"the dataset's {name}", array) for name, array in zip(names, dataset, strict=True)]
    sizes = (protocol.n_pool, protocol.n_pool, protocol.n_test, protocol.n_test)
    for name, array, n in zip(names, arrays, sizes, strict=True):
        if array.ndim != 2 or len(array) != n or not array.shape[1]:
            raise ValueError(f"the dataset's {name} must have shape ({n}, columns), got {array.shape}")
        check_values(f"the dataset's {name}", array)
    x, y, test_x, test_y = arrays
    if x.shape[1] != test_x.shape[1] or y.shape[1] != test_y.shape[1]:
        raise ValueError(f"pool and test columns differ: x {x.shape}, {test_x.shape}; y {y.shape}, {test_y.shape}")
    return Data(*(jnp.asarray(array, jnp.float32) for array in arrays))


def unmasked(name: str, array: Any) -> np.ndarray:
    """As an array; ValueError where entries are masked, which would be taken for values."""
    array = with_masks(array)
    if np.ma.is_masked(array):
        raise ValueError(f"{name} has {np.ma.count_masked(array)} masked entries: leave their rows out")
    return np.asarray(array)


def with_masks(data: Any) -> Any:
    """A list of arrays as one masked array, where one of them is masked; other data as they are."""
    if isinstance(data, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in data):
        return np.ma.array(data)
    return data


def constant_columns(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Which columns vary by no more than this share of their largest value, (d,)."""
    low, high = values.min(0), values.max(0)
    return high - low <= tolerance * np.maximum(np.abs(low), np.abs(high))


def check_values(name: str, values: np.ndarray, row: str = "row") -> np.ndarray:
    """A table in float64; ValueError unless all of it is finite and not too large to square in float32."""
    values = np.asarray(values, float)
    for wrong, why in (
        (~np.isfinite(values), "it must be finite"),
        (np.abs(values) > LARGEST_VALUE, "beyond 1e15, too large to square; change its unit"),
    ):
        if wrong.any():
            i, column = np.argwhere(wrong)[0]
            raise ValueError(f"{name} is {values[i, column]:g} in {row} {i}, column {column}: {why}")
    return values


def check_columns(name: str, labelled: np.ndarray, floor: float = 0) -> None:
    """`check_values`, and warnings of columns that are not standardised as they should be.

    That are constant ones, and those that vary so little in their unit that what is added to their scale, or this floor
    of predicted variances, is seen: see `milb.training.fit`.
    """
    labelled = check_values(name, labelled, "labelled row")
    constant, std = np.flatnonzero(constant_columns(labelled, CONSTANT)), labelled.std(0)
    if len(constant):
        warnings.warn(
            f"{name} is constant over the labels in column(s) {constant.tolist()}, to a millionth of its value: if it "
            "does vary, subtract an offset",
            stacklevel=4,
        )
    small = np.setdiff1d(np.flatnonzero(std < 100 * max(SCALE_FLOOR, math.sqrt(floor))), constant)
    if len(small):
        added = f"predicted variances get {floor:g} added" if floor else f"{SCALE_FLOOR:g} is added to its scale"
        warnings.warn(
            f"{name} has a standard deviation of {std[small[0]]:.2g} in column(s) {small.tolist()}: {added} in "
            f"{name}'s own unit, so choose a smaller one, such as µm for m",
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
