"""Entropy and mutual information of one-dimensional mixtures by quadrature: in NumPy and float64, whatever JAX uses.

A reference that bounds are tested against: slow, and right to about 1e-6 nat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike, Float

from milb.mixture import LOG_2PI, GaussianMixture, log_weights_of_members

REACH = 10  # standard deviations: beyond, a Gaussian has a mass of 1e-23
STEP = 0.5  # standard deviations between breakpoints
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


class Nodes(NamedTuple):
    """Where to evaluate an integrand over y, and what to weigh it with, both (..., Q)."""

    y: Float[np.ndarray, "*batch Q"]
    weights: Float[np.ndarray, "*batch Q"]


def quadrature_nodes(mixture: GaussianMixture) -> Nodes:
    """Nodes and weights that integrate over y what varies no faster than a mixture's components, for D = 1.

    Gauss-Legendre with 8 nodes between neighbouring breakpoints, which lie every half standard deviation up to 10 from
    each component's mean: however different widths are, every component is resolved. Errors as `mi_quadrature`.
    """
    return _nodes(*_one_dimensional(mixture)[1:])


def entropy_quadrature(mixture: GaussianMixture) -> Float[np.ndarray, "*batch"]:
    """Differential entropy of mixtures over one dimension, in nats, (...); errors as `mi_quadrature`."""

    def of_one(log_weights: np.ndarray, means: np.ndarray, stds: np.ndarray) -> float:
        y, weights = _nodes(means, stds)
        log_p = _log_density(log_weights, means, stds, y)
        return -(weights * np.exp(log_p) * log_p).sum()

    return _one_by_one(of_one, *_one_dimensional(mixture), n_kept=1)


def mi_quadrature(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[np.ndarray, "*batch"]:
    """Mutual information I(Y; Z | x) of members over one dimension, in nats, (...).

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K) with D = 1.
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Raises:
        ValueError: D is not 1, a variance is 0 or NaN, no ensemble axis, member_weights not (E,) or not weights.
    """
    log_w = np.asarray(log_weights_of_members(members, member_weights), np.float64)[:, None]

    def of_one(log_weights: np.ndarray, means: np.ndarray, stds: np.ndarray) -> float:
        y, weights = _nodes(means.reshape(-1), stds.reshape(-1))
        log_p = np.stack([_log_density(*member, y) for member in zip(log_weights, means, stds, strict=True)])
        log_marginal = np.logaddexp.reduce(log_w + log_p, axis=0)
        return (np.exp(log_w + log_p) * weights * (log_p - log_marginal)).sum()

    leaves = (np.moveaxis(leaf, 0, -2) for leaf in _one_dimensional(members))
    return _one_by_one(of_one, *leaves, n_kept=2)


def _one_by_one(function: Callable[..., float], *leaves: np.ndarray, n_kept: int) -> np.ndarray:
    """A function of the leaves' last n_kept axes, for all leading ones: memory is that of one."""
    values = np.empty(leaves[0].shape[: leaves[0].ndim - n_kept])
    for index in np.ndindex(values.shape):
        values[index] = function(*(leaf[index] for leaf in leaves))
    return values


def _nodes(means: np.ndarray, stds: np.ndarray) -> Nodes:
    steps = np.arange(-REACH, REACH + STEP / 2, STEP)
    breaks = np.sort((means[..., None] + stds[..., None] * steps).reshape(*means.shape[:-1], -1), axis=-1)
    middle, half = 0.5 * (breaks[..., 1:] + breaks[..., :-1]), 0.5 * np.diff(breaks)
    y, weights = middle[..., None] + half[..., None] * _NODES, half[..., None] * _NODE_WEIGHTS
    return Nodes(y.reshape(*y.shape[:-2], -1), weights.reshape(*y.shape[:-2], -1))


def _log_density(log_weights: np.ndarray, means: np.ndarray, stds: np.ndarray, y: np.ndarray) -> np.ndarray:
    """log p at y (Q,) of one mixture, in float64."""
    terms = log_weights - np.log(stds) - 0.5 * (((y[:, None] - means) / stds) ** 2 + LOG_2PI)
    return np.logaddexp.reduce(terms, axis=-1)


def _one_dimensional(mixture: GaussianMixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log weights, means and standard deviations, each (..., K), float64."""
    if mixture.n_dimensions != 1:
        raise ValueError(f"quadrature takes mixtures over one dimension, got D = {mixture.n_dimensions}")
    variances = np.asarray(mixture.component_variances(), np.float64)[..., 0]
    if not (variances > 0).all():
        raise ValueError("variances must be positive; a network may predict 0, which `milb.mdn.VARIANCE_FLOOR` is for")
    stds = np.sqrt(variances)
    return np.asarray(mixture.log_weights, np.float64), np.asarray(mixture.means, np.float64)[..., 0], stds
