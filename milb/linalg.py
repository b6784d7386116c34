"""Many small positive definite matrices at once: by elimination, matrix axes first, in XLA's own operations.

Not with LAPACK, as JAX does it on CPUs: jaxlib 0.10 spreads a batch over the threads that run the program, and one of
them waits for the others. Two batches at a time, in one program or on two CPU devices, then wait for each other for
ever on a machine of two cores.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def log_det(matrices: Float[Array, "D D *batch"]) -> Float[Array, "*batch"]:
    """Log determinants of positive definite matrices; NaN for others."""
    return _eliminated(matrices, len(matrices))[1]


def squared_norm_and_log_det(
    matrices: Float[Array, "D D *batch"], vectors: Float[Array, "D *batch"]
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """b' A^-1 b and log |A|, of positive definite A; NaN for others."""
    beside = jnp.concatenate([matrices, vectors[None]])
    below = jnp.concatenate([vectors, jnp.zeros_like(vectors[:1])])
    rest, total = _eliminated(jnp.concatenate([beside, below[:, None]], axis=1), len(matrices))
    return -rest[-1, -1], total


def solve_lower(lower: Float[Array, "D D *batch"], right: Float[Array, "D R *batch"]) -> Float[Array, "D R *batch"]:
    """L^-1 B, of lower triangular L; what stands above L's diagonal must be 0."""

    def row(i: Array, solved: Array) -> Array:
        found = solved[i] / lower[i, i][None]
        return (solved - lower[:, i][:, None] * found[None]).at[i].set(found)

    return jax.lax.fori_loop(0, len(lower), row, right)


def _eliminated(matrices: Array, n: int) -> tuple[Array, Array]:
    """What is left of symmetric matrices after n rows and columns, and the sum of the pivots' logs.

    Half of the rows at a time: those behind them are a quarter of the matrix, and the rest need not be looked at again.
    """

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, total = state
        pivot = rest[i, i]
        return rest - rest[i][:, None] * (rest[i] / pivot[None])[None], total + jnp.log(pivot)

    total = jnp.zeros_like(matrices[0, 0])
    while n:
        half = (n + 1) // 2
        matrices, total = jax.lax.fori_loop(0, half, step, (matrices, total))
        matrices, n = matrices[half:, half:], n - half
    return matrices, total
