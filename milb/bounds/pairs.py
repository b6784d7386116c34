"""Sums over pairs of components, which all closed-form bounds are made of.

Mixtures lie innermost, one a lane, dimensions outermost, so that pairs of components are made by instructions on long
rows. A component meets the others as neighbours on a ring: slices of a doubled array, for one shift after the other.
With M components and D dimensions that is O(M^2 D) operations a mixture, in blocks: memory is O(M^2) times a fixed
number of mixtures, and no array over pairs and dimensions exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from milb.devices import by_backend
from milb.mixture import Mixture

# Mixtures handled at once: long enough rows for vector instructions, M^2 of them still fit a core's cache.
_LANES = (256, 8_192)
# Variances scaled to about 1 may spread over 1e-12 to 1e12: three factors of a product stay within float32.
_FACTORS = 3

Leaves = tuple[Array, ...]
# From components m and, for each of them, a partner n: log k(m, n), and log k(n, m) unless it is the same.
LogKernel = Callable[[Leaves, Leaves], tuple[Array, ...]]


class Block(NamedTuple):
    """Mixtures of members z = 1 .. E with components i = 1 .. K each; a plain mixture has one member.

    Attributes:
        log_weights: (E, K, lanes), log b of component (z, i) in the whole mixture.
        means: (D, E, K, lanes), as given.
        variances: (D, E, K, lanes), divided by the squared scale of their dimension.
        log_scale: (D, 1, 1, lanes), of the middle of a dimension's range of standard deviations, so that its ends
            are equally far from overflow. A change of units moves bounds by a known amount: constant to gradients.
        per_unit: (D, 1, 1, lanes), e^{-log_scale}.
    """

    log_weights: Array
    means: Array
    variances: Array
    log_scale: Array
    per_unit: Array

    def squared_differences(self, here: Array, there: Array) -> Array:
        """Of means, scaled once they are taken, so that what is far from a pair cannot round it."""
        return ((here - there) * self.per_unit) ** 2


class Shifts(NamedTuple):
    """Steps (s, j) on the two rings: (z, i) meets (z + s, i + j). The first n_two_way meet each pair once only."""

    steps: np.ndarray
    n_two_way: int


def over_lanes(function: Callable[[Block], Array], mixture: Mixture, n_members: int = 1) -> Array:
    """A function from a block to (..., lanes), for all mixtures (*batch): returns (*batch, ...).

    Args:
        mixture: log_weights (*batch, E K), components of a member side by side.
        n_members: E.
    """
    batch = mixture.log_weights.shape[:-1]
    flat = math.prod(batch)
    lanes = min(by_backend(*_LANES), max(flat, 1))
    n_blocks = -(-flat // lanes)

    def to_lanes(leaf: Array, trailing: int) -> Array:
        rows = leaf.reshape(flat, *leaf.shape[leaf.ndim - trailing :])
        rows = jnp.pad(rows, ((0, n_blocks * lanes - flat), *[(0, 0)] * trailing), constant_values=1)
        rows = rows.reshape(n_blocks, lanes, *rows.shape[1:])
        rows = rows.transpose(0, *range(rows.ndim - 1, 1, -1), 1)
        return rows.reshape(*rows.shape[:-2], n_members, mixture.n_components // n_members, lanes)

    def one_block(block: tuple[Array, Array, Array]) -> Array:
        log_weights, means, variances = block
        log_variances = jax.lax.stop_gradient(jnp.log(variances))
        log_scale = 0.25 * (log_variances.max((1, 2), keepdims=True) + log_variances.min((1, 2), keepdims=True))
        scaled_variances = variances * jnp.exp(-2 * log_scale)
        return function(Block(log_weights, means, scaled_variances, log_scale, jnp.exp(-log_scale)))

    leaves = (to_lanes(mixture.log_weights, 1), to_lanes(mixture.means, 2), to_lanes(mixture.variances, 2))
    results = jnp.moveaxis(jax.lax.map(one_block, leaves), -1, 1)
    return results.reshape(n_blocks * lanes, *results.shape[2:])[:flat].reshape(*batch, *results.shape[2:])


def within_members(n_components: int) -> Shifts:
    """All pairs of two components of one member."""
    half = n_components // 2
    # With K even, i and i + K/2 are opposite each other: that shift already meets both of them.
    return _shifts([(0, j + 1) for j in range(half)], half - (n_components % 2 == 0))


def between_members(n_members: int, n_components: int) -> Shifts:
    """All pairs of components of two members."""
    half = n_members // 2
    steps = [(s + 1, j) for s in range(half) for j in range(n_components)]
    return _shifts(steps, n_components * (half - (n_members % 2 == 0)))


def _shifts(steps: list[tuple[int, int]], n_two_way: int) -> Shifts:
    return Shifts(np.array(steps, int).reshape(-1, 2), n_two_way)


def pair_logs(log_kernel: LogKernel, leaves: Leaves, shifts: Shifts) -> tuple[Array, ...]:
    """What the kernel returns of every (z, i) and its partner, (n_steps, E, K, lanes); leaves (..., E, K, lanes)."""
    rings = jax.tree.map(_doubled, leaves)

    def at(step: Array) -> tuple[Array, ...]:
        return log_kernel(leaves, tuple(_window(ring, step, leaf) for ring, leaf in zip(rings, leaves, strict=True)))

    return jax.lax.map(at, jnp.asarray(shifts.steps))


def partners(leaf: Array, shifts: Shifts) -> Array:
    """The leaf (E, K, lanes) of everybody's partner, (n_steps, E, K, lanes)."""
    ring = _doubled(leaf)
    return jax.vmap(lambda step: _window(ring, step, leaf))(jnp.asarray(shifts.steps))


def log_sums(logs: tuple[Array, ...], log_weights: Array, shifts: Shifts) -> Array:
    """log sum_n b_n k(m, n) over all n that the shifts bring to m, (E, K, lanes); -inf where there is none.

    Args:
        logs: of k(m, n), as `pair_logs` returns them, and of k(n, m) unless it is the same.
    """
    sizes = jnp.asarray(log_weights.shape[:2])

    def behind(step: Array, log_k: Array) -> Array:
        return _window(_doubled(log_k + log_weights), (sizes - step) % sizes, log_weights)

    n = shifts.n_two_way
    nobody = jnp.full_like(log_weights[None], -jnp.inf)
    terms_ahead = logs[0] + partners(log_weights, shifts)
    terms_behind = jax.vmap(behind)(jnp.asarray(shifts.steps)[:n], logs[-1][:n])
    return logsumexp(jnp.concatenate([nobody, terms_ahead, terms_behind]), axis=0)


def log_sum_of_pairs(log_kernel: LogKernel, leaves: Leaves, log_weights: Array, shifts: Shifts) -> Array:
    """`log_sums` of `pair_logs`, (E, K, lanes)."""
    return log_sums(pair_logs(log_kernel, leaves, shifts), log_weights, shifts)


def sum_log(values: Array) -> Array:
    """Sum of logs over axis 0, as logs of products of a few factors each: a logarithm costs ten products."""
    total = 0.0
    for start in range(0, values.shape[0], _FACTORS):
        total = total + jnp.log(jnp.prod(values[start : start + _FACTORS], axis=0))
    return total


def weighted_sum(log_weights: Array, values: Array, axis: int | tuple[int, ...]) -> Array:
    """sum_m e^{log_weights} values along axes, where weight 0 times anything is 0."""
    weights = jnp.exp(log_weights)
    return (weights * jnp.where(weights > 0, values, 0)).sum(axis)


def entropy_of_weights(log_weights: Array) -> Array:
    """H(w) = -sum_z w_z log w_z over the last axis, in nats."""
    return -weighted_sum(log_weights, log_weights, axis=-1)


def _doubled(leaf: Array) -> Array:
    """A ring laid out straight, twice, in its two axes."""
    for axis in (-3, -2):
        leaf = jnp.concatenate([leaf] * min(2, leaf.shape[axis]), axis)
    return leaf


def _window(ring: Array, step: Array, like: Array) -> Array:
    start = [0] * (ring.ndim - 3) + [step[0], step[1], 0]
    return jax.lax.dynamic_slice(ring, start, like.shape)
