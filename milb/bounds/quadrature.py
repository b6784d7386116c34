"""Entropy and mutual information of one-dimensional mixtures by quadrature: in NumPy and float64, whatever JAX uses.

A reference that bounds are tested against: slow, and right to about 1e-6 nat.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import ArrayLike, Float

from milb.mixture import LOG_2PI, GaussianMixture, log_weights_of_members

REACH = 10  # standard deviations: beyond, a Gaussian has a mass of 1e-23
STEP = 0.5  # standard deviations between breakpoints
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(8)


def quadrature_nodes(
    mixture: GaussianMixture,
) -> tuple[Float[np.ndarray, "*batch Q"], Float[np.ndarray, "*batch Q"]]:
    """Nodes y and weights, both (..., Q), that integrate over y what varies no faster than a mixture's components.

    Gauss-Legendre with 8 nodes between neighbouring breakpoints, which lie every half standard deviation up to 10 from
    each component's mean: however different widths are, every component is resolved.

    Args:
        mixture: log_weights (..., K) with D = 1.

    Raises:
        ValueError: D is not 1.
    """
    _, means, stds = _one_dimensional(mixture)
    steps = np.arange(-REACH, REACH + STEP / 2, STEP)
    breaks = np.sort((means[..., None] + stds[..., None] * steps).reshape(*means.shape[:-1], -1), axis=-1)
    middle, half = 0.5 * (breaks[..., 1:] + breaks[..., :-1]), 0.5 * np.diff(breaks)
    y = middle[..., None] + half[..., None] * _NODES
    return y.reshape(*y.shape[:-2], -1), (half[..., None] * _NODE_WEIGHTS).reshape(*y.shape[:-2], -1)


def entropy_quadrature(mixture: GaussianMixture) -> Float[np.ndarray, "*batch"]:
    """Differential entropy of mixtures over one dimension, in nats, (...); ValueError as `quadrature_nodes`."""

    def of_one(mixture: GaussianMixture) -> float:
        y, weights = quadrature_nodes(mixture)
        log_p = _log_density(mixture, y)
        return -(weights * np.exp(log_p) * log_p).sum()

    return _one_by_one(of_one, mixture, n_kept=1)


def mi_quadrature(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[np.ndarray, "*batch"]:
    """Mutual information I(Y; Z | x) of members over one dimension, in nats, (...).

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K) with D = 1.
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Raises:
        ValueError: D is not 1, no ensemble axis, member_weights not (E,) or not weights.
    """
    member_weights = np.exp(np.asarray(log_weights_of_members(members, member_weights), np.float64))

    def of_one(members: GaussianMixture) -> float:
        n_members = len(members.means)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), members)
        y, weights = quadrature_nodes(flat)
        log_p = _log_density(members, np.broadcast_to(y, (n_members, len(y))))
        with np.errstate(divide="ignore"):
            log_marginal = np.logaddexp.reduce(np.log(member_weights)[:, None] + log_p, axis=0)
        return (member_weights[:, None] * weights * np.exp(log_p) * (log_p - log_marginal)).sum()

    swapped = jax.tree.map(lambda leaf: np.moveaxis(np.asarray(leaf), 0, members.log_weights.ndim - 2), members)
    return _one_by_one(of_one, swapped, n_kept=2)


def _one_by_one(function: Callable[[GaussianMixture], float], mixture: GaussianMixture, n_kept: int) -> np.ndarray:
    """A function of log weights with their last n_kept axes, for all leading axes: memory is that of one."""
    batch = np.shape(mixture.log_weights)[: np.ndim(mixture.log_weights) - n_kept]
    values = np.empty(batch)
    for index in np.ndindex(batch):
        values[index] = function(jax.tree.map(lambda leaf, index=index: np.asarray(leaf)[index], mixture))
    return values


def _log_density(mixture: GaussianMixture, y: np.ndarray) -> np.ndarray:
    """log p(y), (..., Q), in float64."""
    log_weights, means, stds = _one_dimensional(mixture)
    squares = ((y[..., None] - means[..., None, :]) / stds[..., None, :]) ** 2
    terms = (log_weights - np.log(stds))[..., None, :] - 0.5 * (squares + LOG_2PI)
    return np.logaddexp.reduce(terms, axis=-1)


def _one_dimensional(mixture: GaussianMixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log weights, means and standard deviations, each (..., K), float64."""
    if mixture.n_dimensions != 1:
        raise ValueError(f"quadrature takes mixtures over one dimension, got D = {mixture.n_dimensions}")
    stds = np.sqrt(np.asarray(mixture.component_variances(), np.float64)[..., 0])
    return np.asarray(mixture.log_weights, np.float64), np.asarray(mixture.means, np.float64)[..., 0], stds
