"""From labels to a trained ensemble, in programs that are compiled once for a buffer."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from milb.ask_tell.settings import capacity
from milb.checks import check_trained, constant_columns
from milb.mdn import Ensemble, predict
from milb.mixture import Mixture, PRNGKey
from milb.protocol import Protocol
from milb.training import fit_buffer, negative_log_likelihood

_predict, _nll = jax.jit(predict), jax.jit(negative_log_likelihood)


ROUNDING = 100 * np.finfo(float).eps  # of a value: columns that vary by no more are constant


class Scaling(NamedTuple):
    """Columns are shifted and divided in float64, before anything becomes float32; (d,) all three."""

    shift: Float[np.ndarray, "d"]
    scale: Float[np.ndarray, "d"]
    constant: Bool[np.ndarray, "d"]

    @classmethod
    def of(cls, values: Float[np.ndarray, "n d"]) -> Scaling:
        """Mean and standard deviation; of columns constant but for rounding the least value and 1, or that rounding."""
        low, spread = values.min(0), np.ptp(values, axis=0)
        constant = constant_columns(values, ROUNDING) | (spread < np.finfo(float).tiny)
        unit = np.where(constant, 1, spread)
        within = (values - low) / unit  # 0 to 1, so that the squares of all values are numbers
        shift = np.where(constant, low, low + unit * within.mean(0))
        return cls(shift, np.where(constant, np.maximum(spread, 1), unit * within.std(0)), constant)

    def __call__(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Scaled, as float32; 0 in constant columns."""
        return np.where(self.constant, 0, (values - self.shift) / self.scale).astype(np.float32)


class Model(NamedTuple):
    """An ensemble and the labels it was trained on, all of them scaled.

    Attributes:
        ensemble: predicts scaled outputs from scaled inputs.
        outputs: how y was scaled.
        x, y: (n, dx) and (n, D), the labels.
        protocol: what it was trained with.
    """

    ensemble: Ensemble
    outputs: Scaling
    x: Float[np.ndarray, "n dx"]
    y: Float[np.ndarray, "n D"]
    protocol: Protocol

    @classmethod
    def trained(cls, key: PRNGKey, x: np.ndarray, y: np.ndarray, protocol: Protocol) -> Model:
        """On scaled inputs and raw outputs; FloatingPointError when training diverges."""
        outputs = Scaling.of(y)
        y = outputs(y)
        return cls(_fit(key, x, y, protocol), outputs, x, y, protocol)

    def forecast(self, x: np.ndarray) -> Mixture:
        """What the members predict at scaled inputs, (B, dx): log_weights (E, B, K)."""
        members = _predict(self.ensemble, _padded(x, capacity(len(x))))
        return jax.tree.map(lambda leaf: leaf[:, : len(x)], members)

    def nll_without(self, key: PRNGKey, rows: np.ndarray, held_out: np.ndarray) -> Float[np.ndarray, "h"]:
        """NLL of some labels, in nats and raw units, under an ensemble trained on others; errors as `trained`."""
        order = np.concatenate([rows, held_out])
        ensemble = _fit(key, self.x[order], self.y[order], self.protocol, len(rows))
        size = capacity(len(self.x))
        nll = _nll(ensemble, _padded(self.x[order], size), _padded(self.y[order], size))
        return np.asarray(nll, float)[len(rows) : len(order)] + np.log(self.outputs.scale).sum()

    def warn_of_constants(self, names: tuple[str, ...] | None, stacklevel: int) -> None:
        """UserWarning that names the outputs that are constant over the labels."""
        constant = np.flatnonzero(self.outputs.constant)
        if len(constant) and len(self.y) > 1:
            called = ", ".join(str(i) if names is None else repr(names[i]) for i in constant)
            warnings.warn(f"y is constant over the labels in column(s) {called}", stacklevel=stacklevel + 1)


def _fit(key: PRNGKey, x: np.ndarray, y: np.ndarray, protocol: Protocol, n: int | None = None) -> Ensemble:
    rows, n = capacity(len(x)), len(x) if n is None else n
    ensemble = fit_buffer(key, _padded(x, rows), _padded(y, rows), jnp.asarray(n), protocol)
    check_trained(ensemble, np.zeros(1), f"training on {n} labels")
    return ensemble


def _padded(values: np.ndarray, rows: int) -> Float[Array, "rows d"]:
    return jnp.asarray(np.concatenate([values, np.zeros((rows - len(values), values.shape[1]))]), jnp.float32)
