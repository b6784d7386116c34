"""What closed-form bounds ask of Gaussians, and the layout in which they ask.

A `Block` holds mixtures of members z = 1 .. E with components i = 1 .. K each; a plain mixture has one member. Mixtures
lie innermost, one a lane, dimensions outermost. Whatever the covariances are, a block answers:

    log_weights    log b of component (z, i) in the whole mixture, (E, K, lanes)
    log_scale      log unit of each dimension, (D, 1, 1, lanes): the middle of its range of standard deviations, so that
                   its ends are equally far from overflow; constant to gradients, which it does not change
    log_det        log |C_m| in these units, (E, K, lanes)
    leaves         what pairs are computed from, each (..., E, K, lanes), the last of them log_det
    pooled         of S = a C_m + b C_n: squared distance of the means in its metric, and log |S|, both (E, K, lanes)
    divergences    KL(m || n) and KL(n || m), (E, K, lanes)

A kind of mixture takes part in every bound through the block that `BLOCKS` gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from milb.devices import by_backend
from milb.full_mixture import FullMixture
from milb.linalg import solve_lower, squared_norm_and_log_det
from milb.mixture import GaussianMixture, Mixture

# Mixtures handled at once: long enough rows for vector instructions, M^2 of them still fit a core's cache.
_LANES = (256, 8_192)
# Variances scaled to about 1 may spread over 1e-12 to 1e12: three factors of a product stay within float32.
_FACTORS = 3

Leaves = tuple[Array, ...]


class DiagonalBlock(NamedTuple):
    """Of `milb.Mixture`.

    Attributes:
        log_weights: (E, K, lanes).
        means: (D, E, K, lanes), as given.
        variances: (D, E, K, lanes), divided by the squared scale of their dimension.
        log_scale, per_unit: (D, 1, 1, lanes); per_unit is e^{-log_scale}.
    """

    log_weights: Array
    means: Array
    variances: Array
    log_scale: Array
    per_unit: Array

    @classmethod
    def of(cls, log_weights: Array, means: Array, variances: Array) -> DiagonalBlock:
        """From leaves with lanes innermost, as given."""
        log_scale = log_middle(variances)
        return cls(log_weights, means, variances * jnp.exp(-2 * log_scale), log_scale, jnp.exp(-log_scale))

    @property
    def log_det(self) -> Array:
        """See the module."""
        return sum_log(self.variances)

    @property
    def leaves(self) -> Leaves:
        """Means, variances, log |C|."""
        return self.means, self.variances, self.log_det

    def pooled(self, here: Leaves, there: Leaves, a: float, b: float) -> tuple[Array, Array]:
        """See the module."""
        pooled = a * here[1] + b * there[1]
        return (self._squared_differences(here, there) / pooled).sum(0), sum_log(pooled)

    def divergences(self, here: Leaves, there: Leaves) -> tuple[Array, Array]:
        """See the module."""
        squares = self._squared_differences(here, there)
        return tuple(
            0.5 * (((of[1] + squares) / to[1]).sum(0) - len(squares) + to[2] - of[2])
            for of, to in ((here, there), (there, here))
        )

    def _squared_differences(self, here: Leaves, there: Leaves) -> Array:
        """Of means, scaled once they are taken, so that what is far from a pair cannot round it."""
        return ((here[0] - there[0]) * self.per_unit) ** 2


class FullBlock(NamedTuple):
    """Of `milb.FullMixture`: a Cholesky factorisation of D x D a pair, O(M^2 D^3) operations a mixture.

    A pair squares the ratio of a narrow component's axes to an elongated one's, and with it what float32 rounds.

    Attributes:
        log_weights: (E, K, lanes).
        means: (D, E, K, lanes), as given.
        roots: (D, D, E, K, lanes), Cholesky factors, their rows divided by the scale of their dimension.
        log_scale: (D, 1, 1, lanes).
    """

    log_weights: Array
    means: Array
    roots: Array
    log_scale: Array

    @classmethod
    def of(cls, log_weights: Array, means: Array, cholesky: Array) -> FullBlock:
        """From leaves with lanes innermost, as given; `over_lanes` hands over columns before rows."""
        n = len(cholesky)
        lower = jnp.tril(jnp.ones((n, n), bool))[:, :, None, None, None]
        cholesky = jnp.where(lower, cholesky.swapaxes(0, 1), 0)  # where lanes only fill up it is all ones
        log_scale = log_middle((cholesky**2).sum(1))
        return cls(log_weights, means, cholesky * jnp.exp(-log_scale)[:, None], log_scale)

    @property
    def log_det(self) -> Array:
        """See the module."""
        return 2 * jnp.log(jnp.diagonal(self.roots)).sum(-1)

    @property
    def leaves(self) -> Leaves:
        """Means, Cholesky factors, log |C|."""
        return self.means, self.roots, self.log_det

    def pooled(self, here: Leaves, there: Leaves, a: float, b: float) -> tuple[Array, Array]:
        """See the module. S = L_m (a I + b W W') L_m' with W = L_m^-1 L_n: no covariance is formed, and rounded."""
        right_sides = jnp.concatenate([there[1], self._differences(here, there)[:, None]], axis=1)
        solution = solve_lower(here[1], right_sides)
        w, u = solution[:, :-1], solution[:, -1]
        identity = jnp.eye(len(w), dtype=w.dtype)[(...,) + (None,) * (w.ndim - 2)]
        inner = a * identity + b * jnp.einsum("df...,ef...->de...", w, w, precision="highest")
        squares, log_det = squared_norm_and_log_det(inner, u)
        return squares, log_det + 2 * jnp.log(jnp.diagonal(here[1])).sum(-1)

    def divergences(self, here: Leaves, there: Leaves) -> tuple[Array, Array]:
        """See the module."""
        differences = self._differences(here, there)

        def divergence(of: Leaves, to: Leaves) -> Array:
            solution = solve_lower(to[1], jnp.concatenate([of[1], differences[:, None]], axis=1))
            return 0.5 * ((solution**2).sum((0, 1)) - len(self.means) + to[2] - of[2])

        return divergence(here, there), divergence(there, here)

    def _differences(self, here: Leaves, there: Leaves) -> Array:
        """Of means, (D, E, K, lanes)."""
        return (here[0] - there[0]) * jnp.exp(-self.log_scale)


Block = DiagonalBlock | FullBlock
BLOCKS: dict[type[GaussianMixture], Callable[..., Block]] = {Mixture: DiagonalBlock.of, FullMixture: FullBlock.of}


def over_lanes(function: Callable[[Block], Array], mixture: GaussianMixture, n_members: int = 1) -> Array:
    """A function from a block to (..., lanes), for all mixtures (*batch): returns (*batch, ...).

    Args:
        mixture: log_weights (*batch, E K), components of a member side by side.
        n_members: E.
    """
    leaves = jax.tree.leaves(mixture)
    batch = leaves[0].shape[:-1]
    flat = math.prod(batch)
    # Covariances with D^2 entries come D times fewer at once.
    lanes = by_backend(*_LANES) // (1 if leaves[-1].ndim == leaves[1].ndim else mixture.n_dimensions)
    lanes = min(max(lanes, 1), max(flat, 1))
    n_blocks = -(-flat // lanes)

    def to_lanes(leaf: Array) -> Array:
        tail = leaf.shape[len(batch) :]
        rows = leaf.reshape(flat, *tail)
        rows = jnp.pad(rows, ((0, n_blocks * lanes - flat), *[(0, 0)] * len(tail)), constant_values=1)
        rows = rows.reshape(n_blocks, lanes, *tail)
        rows = rows.transpose(0, *range(rows.ndim - 1, 1, -1), 1)
        return rows.reshape(*rows.shape[:-2], n_members, mixture.n_components // n_members, lanes)

    def one_block(block: Leaves) -> Array:
        return function(BLOCKS[type(mixture)](*block))

    results = jnp.moveaxis(jax.lax.map(one_block, tuple(map(to_lanes, leaves))), -1, 1)
    return results.reshape(n_blocks * lanes, *results.shape[2:])[:flat].reshape(*batch, *results.shape[2:])


def log_middle(variances: Array) -> Array:
    """Log of the middle of each dimension's range of standard deviations, (D, 1, 1, lanes), from (D, E, K, lanes)."""
    log_variances = jax.lax.stop_gradient(jnp.log(variances))
    return 0.25 * (log_variances.max((1, 2), keepdims=True) + log_variances.min((1, 2), keepdims=True))


def sum_log(values: Array) -> Array:
    """Sum of logs over axis 0, as logs of products of a few factors each: a logarithm costs ten products."""
    total = 0.0
    for start in range(0, values.shape[0], _FACTORS):
        total = total + jnp.log(jnp.prod(values[start : start + _FACTORS], axis=0))
    return total
