r"""BAIT: the batch that leaves the smallest Fisher trace over the pool, without its matrices.

A point's embedding is rank one and factors, g_i = z_i (x) c_i with z_i in R^h (features) and c_i in R^KD
(coefficients), so g_i . g_j = (c_i . c_j)(z_i . z_j), and nothing of size dim = h KD, squared or times N, is formed.

With L the scaled labelled rows, M_0^-1 = (I - L'(ridge I + L L')^-1 L) / ridge. Write L L' + ridge I = R R' and
P_i = R^-1 L g_i: then g_i' M_0^-1 g_j = (g_i . g_j - P_i . P_j) / ridge. After t picks M^-1 is M_0^-1 minus t rank-one
terms; U_it is the product of candidate i with the t-th of them. So every product with M^-1 is one with M_0^-1 minus
one of rows of U. Embeddings of few dimensions go another way, see `milb.selection.bait_direct`.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.sharding import PartitionSpec
from jaxtyping import Array, ArrayLike, Int

from milb.devices import AXIS, by_backend, mesh_for, real_float32
from milb.mixture import is_concrete
from milb.protocol import check_ridge, integer_at_least
from milb.selection import bait_direct
from milb.selection.scores import checked_available
from milb.selection.space import best_left

# Of the pool's kernel matrix, in memory at once on a device: of a CPU, of an accelerator.
_ROWS, _COLUMNS = (512, 4_096), (2_048, 8_192)


def bait(
    coefficients: ArrayLike,
    features: ArrayLike,
    labelled_coefficients: ArrayLike,
    labelled_features: ArrayLike,
    k: int,
    ridge: float = 1.0,
    oversample: int = 2,
    available: ArrayLike | None = None,
    labelled_mask: ArrayLike | None = None,
) -> Int[Array, "k"]:
    """Forward-backward greedy minimisation of tr(M_S^-1 M_U), exactly.

    M_S = ridge I + n_L/(n_L + k) sum over labelled g g' + k/(n_L + k) sum over picked g g', and M_U is the mean of
    g g' over the available rows. oversample * k rows are added one by one, then all but k removed one by one.

    Args:
        coefficients: (N, KD), c of all pool rows.
        features: (N, h), z of all pool rows.
        labelled_coefficients, labelled_features: (L, KD) and (L, h), buffers of the labelled points'; L = 0 is allowed.
        k: how many, 1 .. number of available rows.
        ridge: 1e-12 to 1e12; 1 in the paper's released experiments, 1e-3 in its text.
        oversample: 1 or more; rows added in the forward pass, a multiple of k (fewer where fewer are available).
        available: (N,), rows that may be picked; None for all.
        labelled_mask: (L,), rows of the buffers that count; None for all.

    Returns:
        (k,) distinct row indices, in the order in which they were added. Among equal rows the lowest are added first,
        and taken out first.

    Not valid when the squared norm of an embedding is above about 1e6 ridge in a direction that labelled rows span:
    what float32 leaves of it there is rounding, unless the embedding has few dimensions.

    Raises:
        ValueError: wrong shapes, k, ridge or oversample out of range, values that are not finite on available or
            labelled rows. Inside jit only shapes and k <= N can be checked.

    Cost: N^2 (KD + h + L) multiplications for the first gains, then N h KD a pick; memory N (KD + h + L + 2k).
    Source: Ash et al. 2021; paper appendix (exp_multimodal); the algebra above.
    """
    pool = (jnp.asarray(coefficients, jnp.float32), jnp.asarray(features, jnp.float32))
    labelled = (jnp.asarray(labelled_coefficients, jnp.float32), jnp.asarray(labelled_features, jnp.float32))
    for names, rows in (("", pool), ("labelled_", labelled)):
        if any(array.ndim != 2 for array in rows) or len(rows[0]) != len(rows[1]):
            raise ValueError(
                f"{names}coefficients must be (rows, KD) and {names}features (rows, h), got "
                f"{rows[0].shape} and {rows[1].shape}"
            )
    if [array.shape[1] for array in pool] != [array.shape[1] for array in labelled]:
        raise ValueError(
            f"pool and labelled rows must have the same KD and h, got {pool[0].shape}, {pool[1].shape} and "
            f"{labelled[0].shape}, {labelled[1].shape}"
        )
    available = checked_available(len(pool[0]), k, available)
    mask = jnp.ones(len(labelled[0]), bool) if labelled_mask is None else jnp.asarray(labelled_mask)
    if mask.shape != (len(labelled[0]),) or mask.dtype != bool:
        raise ValueError(f"labelled_mask must be a boolean mask of shape ({len(labelled[0])},), got {mask.shape}")
    if is_concrete(ridge):
        check_ridge("ridge", ridge)
    oversample = integer_at_least(1, "oversample", oversample)
    usable, counted = (rows & jnp.isfinite(arrays[0]).all(1) & jnp.isfinite(arrays[1]).all(1)
                       for rows, arrays in ((available, pool), (mask, labelled)))  # fmt: skip
    if is_concrete(usable, counted):
        for name, rows, good in (("pool", available, usable), ("labelled", mask, counted)):
            bad = np.flatnonzero(np.asarray(rows & ~good))
            if len(bad):
                raise ValueError(f"coefficients and features must be finite; {name} row {bad[0]} is not")
    k = int(k)
    n_forward = min(oversample * k, len(pool[0]))
    with real_float32():
        return _bait(*pool, *labelled, available, usable, counted, jnp.float32(ridge), k, n_forward)


@partial(jax.jit, static_argnames=("k", "n_forward"))
def _bait(
    coefficients: Array,
    features: Array,
    labelled_coefficients: Array,
    labelled_features: Array,
    available: Array,
    usable: Array,
    labelled_mask: Array,
    ridge: Array,
    k: int,
    n_forward: int,
) -> Array:
    c, z = (jnp.where(usable[:, None], rows, 0) for rows in (coefficients, features))
    labels_c, labels_z = (
        jnp.where(labelled_mask[:, None], rows, 0) for rows in (labelled_coefficients, labelled_features)
    )
    n_labelled = labelled_mask.sum()
    arguments = (c, z, labels_c, labels_z, available, usable, n_labelled, ridge)
    few_dimensions = c.shape[1] * z.shape[1] <= 2 * (len(labels_c) + n_forward)
    if few_dimensions:
        call = partial(bait_direct.direct, k=k, n_forward=n_forward)
        return jax.pure_callback(call, jax.ShapeDtypeStruct((k,), jnp.int32), *arguments, vmap_method="sequential")
    return _dual(*arguments, k, n_forward)


def _dual(
    c: Array,
    z: Array,
    labels_c: Array,
    labels_z: Array,
    available: Array,
    usable: Array,
    n_labelled: Array,
    ridge: Array,
    k: int,
    n_forward: int,
) -> Array:
    """By products between points alone, as the module's docstring says."""
    n_labelled = n_labelled.astype(c.dtype)
    scale = jnp.sqrt(k / (n_labelled + k))  # of a candidate, once picked
    labels_c = labels_c * jnp.sqrt(n_labelled / (n_labelled + k))
    gram = (labels_c @ labels_c.T) * (labels_z @ labels_z.T)
    # Below what float32 resolves beside the largest label, a ridge would vanish and the matrix be singular.
    ridge = jnp.maximum(ridge, jnp.finfo(gram.dtype).eps * jnp.max(jnp.diagonal(gram), initial=0))
    root = jnp.linalg.cholesky(gram + ridge * jnp.eye(len(gram), dtype=gram.dtype))
    p = solve_triangular(root, ((c @ labels_c.T) * (z @ labels_z.T)).T, lower=True).T
    share = (usable / jnp.maximum(usable.sum(), 1)).astype(c.dtype)  # of a row in M_U

    def with_row(row: Array) -> Array:
        """Every candidate's product with one, g~_i' M_0^-1 g~_row."""
        return scale**2 * ((c @ c[row]) * (z @ z[row]) - p @ p[row]) / ridge

    def add(state: tuple[Array, Array, Array, Array], t: Array) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
        a, b, left, u = state
        row = best_left(b / (1 + a), left, usable)
        void = ~left[row]  # fewer rows are available than are to be added
        along = jnp.where(void, 0, with_row(row) - u @ u[row])
        weights = share * along / scale
        v = c.T @ (weights[:, None] * z)  # M_U M^-1 g~_row, as a (KD, h) matrix
        q = scale * (((c @ v) * z).sum(1) - p @ (p.T @ weights)) / ridge - u @ (u.T @ weights) / scale
        grown = 1 + a[row]
        b = b - 2 * along * q / grown + along**2 * q[row] / grown**2
        a = a - along**2 / grown
        return (a, b, left.at[row].set(False), u.at[:, t].set(along / jnp.sqrt(grown))), (row, void)

    a = scale**2 * ((c**2).sum(1) * (z**2).sum(1) - (p**2).sum(1)) / ridge
    b = (scale / ridge) ** 2 * _mean_squared_kernel(c, z, p, share)
    start = (a, b, available, jnp.zeros((len(c), n_forward), c.dtype))
    _, (rows, void) = jax.lax.scan(add, start, jnp.arange(n_forward))

    chosen_c, chosen_z, chosen_p = c[rows], z[rows], p[rows]
    products = ((c @ chosen_c.T) * (z @ chosen_z.T) - p @ chosen_p.T) * (scale / ridge)
    inner = scale * products[rows]
    spread = (share[:, None] * products).T @ products
    remove = partial(bait_direct.remove, k=k)
    shape = jax.ShapeDtypeStruct((n_forward,), bool)
    kept = jax.pure_callback(remove, shape, inner, spread, ~void, vmap_method="sequential")
    return rows[jnp.flatnonzero(kept, size=k)]


def _mean_squared_kernel(c: Array, z: Array, p: Array, share: Array) -> Array:
    """sum_j share_j ((c_i . c_j)(z_i . z_j) - p_i . p_j)^2 for every row i, in tiles, rows spread over devices."""
    n = len(c)
    n_devices = jax.device_count()
    rows = min(by_backend(*_ROWS), n)
    columns = min(by_backend(*_COLUMNS), n)

    def tiles(array: Array, multiple: int, size: int) -> Array:
        padded = jnp.pad(array, ((0, -n % multiple), *[(0, 0)] * (array.ndim - 1)))
        return padded.reshape(len(padded) // size, size, *array.shape[1:])

    def of_device(row_tiles: tuple[Array, ...], column_tiles: tuple[Array, ...]) -> Array:
        def of_rows(tile: tuple[Array, ...]) -> Array:
            def add(total: Array, other: tuple[Array, ...]) -> tuple[Array, None]:
                kernel = (tile[0] @ other[0].T) * (tile[1] @ other[1].T) - tile[2] @ other[2].T
                return total + (kernel**2 * other[3][None]).sum(1), None

            return jax.lax.scan(add, jnp.zeros(rows, c.dtype), column_tiles)[0]

        return jax.lax.map(of_rows, row_tiles)

    split, everywhere = PartitionSpec(AXIS), PartitionSpec()
    spread = jax.shard_map(
        of_device, mesh=mesh_for(n_devices), in_specs=(split, everywhere), out_specs=split, check_vma=False
    )
    row_tiles = tuple(tiles(array, n_devices * rows, rows) for array in (c, z, p))
    return spread(row_tiles, tuple(tiles(array, columns, columns) for array in (c, z, p, share))).reshape(-1)[:n]
