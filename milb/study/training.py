"""Training all runs of a group: as one program of all of them, or run after run."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec
from jaxtyping import Array, Float, Int, Key

from milb.checks import Data
from milb.devices import AXIS, mesh_for
from milb.mdn import Ensemble
from milb.protocol import Protocol
from milb.training import fit_buffer, negative_log_likelihood


def train(
    keys: Key[Array, "seeds"], data: Data, rows: Int[Array, "seeds arms n_max"], n: Int[Array, ""], protocol: Protocol
) -> tuple[Ensemble, Float[Array, "seeds arms T"]]:
    """Every run's ensemble on its first n rows, and its negative log-likelihood at every test point.

    Arms of a seed share key and dataset, hence initial networks and mini-batch draws. An accelerator takes a step of
    all runs at once. A CPU trains one run after the other, in two thirds to three quarters of the time: a core's cache
    holds the networks of one run, not those of many.
    """
    return (run_by_run if jax.default_backend() == "cpu" else together)(keys, data, rows, n, protocol)


@partial(jax.jit, static_argnames="protocol")
def together(keys: Array, data: Data, rows: Array, n: Array, protocol: Protocol) -> tuple[Ensemble, Array]:
    """`train`, every step of all runs. The number of steps is the same for all: the trip count has no axis of runs."""
    of_arms = jax.vmap(partial(_train_one, n=n, protocol=protocol), in_axes=(None, None, 0))
    return jax.vmap(of_arms)(keys, data, rows)


@partial(jax.jit, static_argnames="protocol")
def run_by_run(keys: Array, data: Data, rows: Array, n: Array, protocol: Protocol) -> tuple[Ensemble, Array]:
    """`train`, one run after the other; devices share the runs where these divide evenly, otherwise the members."""
    seeds, arms, n_max = rows.shape
    spread_runs = seeds * arms % jax.device_count() == 0
    every = rows.reshape(-1, n_max)

    def of_run(i: Array) -> tuple[Ensemble, Array]:
        key, of_seed = jax.tree.map(lambda leaf: leaf[i // arms], (keys, data))
        return _train_one(key, of_seed, every[i], n, protocol, spread_members=not spread_runs)

    def of_runs(which: Array) -> tuple[Ensemble, Array]:
        return jax.lax.map(of_run, which)

    if spread_runs:
        shared = PartitionSpec(AXIS)
        of_runs = jax.shard_map(
            of_runs, mesh=mesh_for(seeds * arms), in_specs=shared, out_specs=shared, check_vma=False
        )
    return jax.tree.map(lambda leaf: leaf.reshape(seeds, arms, *leaf.shape[1:]), of_runs(jnp.arange(seeds * arms)))


def _train_one(
    key: Array, data: Data, rows: Array, n: Array, protocol: Protocol, spread_members: bool = True
) -> tuple[Ensemble, Array]:
    ensemble = fit_buffer(key, data.x[rows], data.y[rows], n, protocol, spread_members=spread_members)
    return ensemble, negative_log_likelihood(ensemble, data.test_x, data.test_y)
