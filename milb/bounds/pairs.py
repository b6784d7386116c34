"""Sums over pairs of components, which all closed-form bounds are made of.

In the layout of `milb.bounds.blocks` pairs of components are made by instructions on long rows. A component meets the
others as neighbours on a ring: slices of a doubled array, for one shift after the other. With M components and D
dimensions that is O(M^2 D) operations a mixture, in blocks: memory is O(M^2) times a fixed number of mixtures, and no
array over pairs and dimensions exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array

from milb.bounds.blocks import Leaves

# From components m and, for each of them, a partner n: log k(m, n), and log k(n, m) unless it is the same.
LogKernel = Callable[[Leaves, Leaves], tuple[Array, ...]]


class Shifts(NamedTuple):
    """Steps (s, j) on the two rings: (z, i) meets (z + s, i + j). The first n_two_way meet each pair once only."""

    steps: np.ndarray
    n_two_way: int


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
    lowest = jnp.finfo(log_weights.dtype).min  # not -inf, of which nothing but itself has no derivative
    nobody = jnp.full_like(log_weights[None], lowest)
    terms_ahead = logs[0] + partners(log_weights, shifts)
    terms_behind = jax.vmap(behind)(jnp.asarray(shifts.steps)[:n], logs[-1][:n])
    total = logsumexp(jnp.concatenate([nobody, terms_ahead, terms_behind]), axis=0)
    return jnp.where(total <= lowest, -jnp.inf, total)  # NaN stays


def log_sum_of_pairs(log_kernel: LogKernel, leaves: Leaves, log_weights: Array, shifts: Shifts) -> Array:
    """`log_sums` of `pair_logs`, (E, K, lanes)."""
    return log_sums(pair_logs(log_kernel, leaves, shifts), log_weights, shifts)


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
