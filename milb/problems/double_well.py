"""Coupled double-well: a chain of particles whose noise decides which well each of them ends in."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from milb.devices import cpu
from milb.mixture import PRNGKey
from milb.problems.problem import Dataset, Problem, offline_protocols
from milb.protocol import Protocol

N_PARTICLES = 5
TIME_STEP = 0.005
N_STEPS = 1_000
SNAPSHOT_STEPS = (250, 500, 750, 1000)
POSITION_RANGE, SIGMA_RANGE, KAPPA_RANGE = (-1.5, 1.5), (0.3, 2.0), (0.0, 3.0)
_BLOCKS = (1_000, 100)  # trajectories whose noise is in memory at once, by how many there are: two shapes to compile

_PAPER = Protocol(
    n_pool=50_000,
    n_test=2_000,
    n_initial=100,
    n_rounds=20,
    n_query=50,
    n_members=8,
    n_components=8,
    width=128,
    depth=3,
    batch_size=128,
    steps_per_label=10,
    max_steps=10_000,
    learning_rate=5e-4,
    weight_decay=1e-2,
)


class DoubleWell(Problem):
    """Overdamped Langevin dynamics of 5 coupled particles; paper equation (dw_sde).

    x = (q_1(0), ..., q_5(0), sigma, kappa): initial positions, noise intensity, coupling. y: positions of all
    particles at t = 1.25, 2.5, 3.75 and 5, snapshot by snapshot. All quantities are dimensionless. The density of y
    has no closed form.
    """

    name = "double_well"
    input_names = (*(f"q{i}(0)" for i in range(1, N_PARTICLES + 1)), "sigma", "kappa")
    output_names = tuple(f"q{i}({step * TIME_STEP:g})" for step in SNAPSHOT_STEPS for i in range(1, N_PARTICLES + 1))
    protocols: ClassVar = {
        "smoke": _PAPER.replace(
            n_pool=400, n_test=100, n_initial=40, n_rounds=2, n_query=5, n_members=2, n_components=3, width=16,
            batch_size=32, steps_per_label=1,
        ),
        # Batches of 64 keep notebook 05 short on two cores.
        "demo": _PAPER.replace(
            n_pool=5_000, n_test=1_000, n_rounds=6, n_query=25, n_members=4, width=64, batch_size=64,
        ),
        "paper": _PAPER,
    }  # fmt: skip
    offline_protocols: ClassVar = offline_protocols(
        _PAPER,
        150_000,
        n_pool=200_000,
        n_test=5_000,
        batch_size=256,
        weight_decay=1e-5,
        warmup_steps=3_000,
        decay_steps=5_000,
    )
    offline_seed = 0

    def sample(self, key: PRNGKey, n: int) -> Float[Array, "n 7"]:
        """n inputs, each coordinate uniform over its range."""
        return _inputs(jax.random.split(key, 4), n)

    def label(self, key: PRNGKey, x: ArrayLike) -> Float[Array, "n 20"]:
        """One trajectory from each row of x; ValueError when x is not (n, 7) or not finite."""
        x = self._checked_inputs(x)
        return _labels(jax.random.split(key, len(x)), x)

    def _make_dataset(self, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
        pool_key, test_key, order_key, _ = jax.random.split(jax.random.key(seed), 4)
        n = max(n_pool, n_test)  # drawn of both, see `_labelled_set`
        x, y = _labelled_set(pool_key, n, n_pool)
        order = np.asarray(jax.random.permutation(order_key, n_pool))
        return Dataset(x[order], y[order], *_labelled_set(test_key, n, n_test))

    def inputs(
        self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100
    ) -> Float[np.ndarray, "N 7"]:
        """`dataset(...).x`, without simulating labels."""
        del n_test, n_initial
        with jax.default_device(cpu()):
            pool_key, _, order_key, _ = jax.random.split(jax.random.key(seed), 4)
            x = np.asarray(_inputs(jax.random.split(pool_key, 4), n_pool))
            return x[np.asarray(jax.random.permutation(order_key, n_pool))]


def _labelled_set(key: PRNGKey, n: int, kept: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `kept` of n inputs, which do not depend on n, and their labels: sets of one n share their programs.

    A random number of JAX is a function of key and position. The sets take a moment to draw, and many times that to
    compile, operation by operation.
    """
    keys = jax.random.split(key, 4)
    x = np.asarray(_inputs(keys, n))[:kept]
    return x, np.asarray(_labels(jax.random.split(keys[3], n)[:kept], x))


def _inputs(keys: Key[Array, "4"], n: int) -> Float[Array, "n 7"]:
    def uniform(key: PRNGKey, shape: tuple[int, ...], bounds: tuple[float, float]) -> Array:
        return jax.random.uniform(key, shape, minval=bounds[0], maxval=bounds[1])

    positions = uniform(keys[0], (n, N_PARTICLES), POSITION_RANGE)
    sigma, kappa = uniform(keys[1], (n,), SIGMA_RANGE), uniform(keys[2], (n,), KAPPA_RANGE)
    return jnp.concatenate([positions, sigma[:, None], kappa[:, None]], axis=1)


def _labels(keys: Key[Array, "n"], x: Float[ArrayLike, "n 7"]) -> Float[Array, "n 20"]:
    """Final outputs at x, in blocks of one shape: the keys decide the noise, so blocks do not change a label."""
    n = len(x)
    block = next((size for size in _BLOCKS if n >= size), max(1, n))
    filled = np.minimum(np.arange(-(-n // block) * block), n - 1).reshape(-1, block)
    x = jnp.asarray(x)
    parts = [
        trajectories(keys[rows], x[rows, :N_PARTICLES], x[rows, N_PARTICLES], x[rows, N_PARTICLES + 1])
        for rows in filled
    ]
    return jnp.concatenate(parts or [jnp.zeros((0, len(SNAPSHOT_STEPS), N_PARTICLES))]).reshape(
        -1, len(SNAPSHOT_STEPS) * N_PARTICLES
    )[:n]


@partial(jax.jit, static_argnames="record_every")
def trajectories(
    keys: Key[Array, "n"],
    start: Float[Array, "n P"],
    sigma: Float[Array, "n"],
    kappa: Float[Array, "n"],
    record_every: int = SNAPSHOT_STEPS[0],
) -> Float[Array, "n records P"]:
    """Euler-Maruyama trajectories of chains of any length P with open ends, recorded every so many steps.

    Args:
        keys: one a trajectory; its noise is normal(key, (1000, P)).
        start: initial positions.
        sigma, kappa: noise intensity and coupling of each trajectory.
        record_every: steps between records, a divisor of 1000; 250 gives the four snapshots of y.

    Source: paper appendix (exp_coupled_double_well).
    """
    n_particles = start.shape[1]
    noise = jax.vmap(lambda key: jax.random.normal(key, (N_STEPS, n_particles)))(keys)
    noise = noise.transpose(1, 0, 2).reshape(N_STEPS // record_every, record_every, *start.shape)
    sigma, kappa = sigma[:, None], kappa[:, None]

    def step(q: Array, eta: Array) -> tuple[Array, None]:
        stretch = jnp.pad(jnp.diff(q, axis=1), ((0, 0), (1, 1)))  # zero beyond the open ends
        drift = q - q**3 + kappa * jnp.diff(stretch, axis=1)
        return q + drift * TIME_STEP + sigma * np.sqrt(TIME_STEP).astype(np.float32) * eta, None

    def record(q: Array, etas: Array) -> tuple[Array, Array]:
        q, _ = jax.lax.scan(step, q, etas)
        return q, q

    return jax.lax.scan(record, start, noise)[1].transpose(1, 0, 2)
