"""An acquisition function over a whole pool: in blocks, on every device."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, ArrayLike, Float

from milb.acquisition import Acquisition
from milb.devices import AXIS, mesh_for
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.protocol import Options


def score_pool(
    acquisition: Acquisition,
    key: PRNGKey,
    ensemble: Ensemble,
    x: ArrayLike,
    options: Options | None = None,
) -> Float[Array, "N"]:
    """Scores of all N points, `options.block_size` at a time on every device.

    Memory is that of the blocks, whatever N. Devices and block size change a score by rounding only. Usable inside jit.

    Args:
        acquisition: one of `milb.acquisition.ACQUISITIONS`, or your own function of the same signature.
        key: split into one key a point.
        ensemble, x, options: passed to it; x is (N, dx).

    Raises:
        ValueError: x is not (N, dx) with the dx of the ensemble, or has no row.
    """
    scores = map_pool(acquisition, key, ensemble, x, Options() if options is None else options)
    if scores.ndim != 1:
        raise ValueError(f"{acquisition} must return one score a point, got rows of shape {scores.shape[1:]}")
    return scores


def map_pool(function: Acquisition, key: PRNGKey, ensemble: Ensemble, x: ArrayLike, options: Options) -> Array:
    """`score_pool` for a function that returns anything with one row a point, such as features (B, d)."""
    x = jnp.asarray(x, jnp.float32)
    if x.ndim != 2 or x.shape[1] != ensemble.n_inputs or not len(x):
        raise ValueError(f"x must have shape (N, {ensemble.n_inputs}) with N >= 1, got {x.shape}")
    # CPU devices wait for each other on as many threads as there are cores: one program over all of them at a time.
    return jax.block_until_ready(_map_pool(function, key, ensemble, x, options))


@partial(jax.jit, static_argnames=("function", "options"))
def _map_pool(function: Acquisition, key: PRNGKey, ensemble: Ensemble, x: Array, options: Options) -> Array:
    n_devices = jax.device_count()
    rows = -(-len(x) // n_devices)
    block = min(options.block_size, rows)
    rows = -(-rows // block) * block
    index = jnp.minimum(jnp.arange(n_devices * rows), len(x) - 1)  # the last row fills up

    def of_device(index: Array, key: PRNGKey, x: Array, ensemble: Ensemble) -> Array:
        def of_block(index: Array) -> Array:
            keys = jax.vmap(partial(jax.random.fold_in, key))(index)
            values = function(keys, ensemble, x[index], options)
            if values.shape[:1] != (block,):
                raise ValueError(f"{function} returned shape {values.shape} for {block} points: one row a point")
            return values

        blocks = jax.lax.map(of_block, index.reshape(-1, block))
        return blocks.reshape(-1, *blocks.shape[2:])

    everywhere, split = PartitionSpec(), PartitionSpec(AXIS)
    spread = jax.shard_map(
        of_device,
        mesh=mesh_for(n_devices),
        in_specs=(split, everywhere, everywhere, everywhere),
        out_specs=split,
        check_vma=False,
    )
    return spread(index, key, x, ensemble)[: len(x)]
