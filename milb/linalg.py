"""Many small matrices at once: by elimination and reflection, matrix axes first, in XLA's own operations.

Not with LAPACK, as JAX does it on CPUs: jaxlib 0.10 spreads a batch over the threads that run the program, and one of
them waits for the others. Two batches at a time, in one program or on two CPU devices, then wait for each other for
ever on a machine of two cores.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def log_det(matrices: Float[Array, "D D *batch"]) -> Float[Array, "*batch"]:
    """Log determinants of positive definite matrices; NaN for others.

    Half of the rows at a time: those behind them are a quarter of the matrix, and the rest need not be looked at again.
    """

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, total = state
        pivot = rest[i, i]
        return rest - rest[i][:, None] * (rest[i] / pivot[None])[None], total + jnp.log(pivot)

    n, total = len(matrices), jnp.zeros_like(matrices[0, 0])
    while n:
        half = (n + 1) // 2
        matrices, total = jax.lax.fori_loop(0, half, step, (matrices, total))
        matrices, n = matrices[half:, half:], n - half
    return total


def norm_and_log_det_of_sum(
    a: float, b: float, lower: Float[Array, "D D *batch"], vectors: Float[Array, "D *batch"]
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """v' S^-1 v and log |S| of S = a I + b W W', for lower triangular W, a > 0 and b >= 0.

    By Householder reflections of (sqrt(a) I, sqrt(b) W')' to a triangle: S is not formed. There the squares of W's
    large singular values would round away what a and the small ones add.
    """

    def step(j: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        rows, rest, squares, total = state
        column = rows[:, j]
        squared_pivot = a + (column**2).sum(0)
        pivot = jnp.sqrt(squared_pivot)
        products = (column[:, None] * rows).sum(0) / pivot[None]  # behind j: row j of the triangle
        found = rest[j] / pivot
        rows = rows - column[:, None] * (products / (math.sqrt(a) + pivot)[None])[None]
        return rows, rest - products * found[None], squares + found**2, total + jnp.log(squared_pivot)

    n, none = len(lower), jnp.zeros_like(vectors[0])
    half = (n + 1) // 2  # columns before it have nothing in the rows behind it
    rows = math.sqrt(b) * lower.swapaxes(0, 1)
    top, rest, *found = jax.lax.fori_loop(0, half, step, (rows[:half], vectors, none, none))
    if half < n:
        behind = jnp.concatenate([top[:, half:], rows[half:, half:]])
        *_, squares, total = jax.lax.fori_loop(0, n - half, step, (behind, rest[half:], *found))
        found = squares, total
    return tuple(found)


def solve_lower(lower: Float[Array, "D D *batch"], right: Float[Array, "D R *batch"]) -> Float[Array, "D R *batch"]:
    """L^-1 B, of lower triangular L; what stands above L's diagonal must be 0."""

    def row(i: Array, solved: Array) -> Array:
        found = solved[i] / lower[i, i][None]
        return (solved - lower[:, i][:, None] * found[None]).at[i].set(found)

    return jax.lax.fori_loop(0, len(lower), row, right)
