"""Alloy phase competition: four phases share a composition triangle, each with its own response."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key

from milb.devices import cpu
from milb.mixture import Mixture, PRNGKey
from milb.problems.mixture_problem import MixtureProblem, draw_component, draw_within
from milb.problems.problem import Dataset, Problem, offline_protocols
from milb.protocol import Options, Protocol

N_PHASES, N_PROCESS = 4, 6
TEMPERATURE = 0.08  # tau_G of the softmin over Gibbs energies
SYSTEM_SEED = 12

_PAPER = Protocol(
    n_pool=50_000,
    n_test=2_000,
    n_initial=100,
    n_rounds=30,
    n_query=15,
    n_members=8,
    n_components=4,
    width=64,
    depth=2,
    batch_size=64,
    steps_per_label=200,
    min_steps=2_000,
    max_steps=40_000,
    learning_rate=2e-4,
    weight_decay=5e-2,
)


class System(NamedTuple):
    """What is drawn once and fixed, per phase: the Gibbs energy's H and b, the mean's and the log variance's terms."""

    hessian: Float[Array, "4 3 3"]
    bias: Float[Array, "4 3"]
    mean_slope: Float[Array, "4 3"]
    mean_offset: Float[Array, "4"]
    mean_frequency: Float[Array, "4 3"]
    log_variance_slope: Float[Array, "4 3"]
    log_variance_offset: Float[Array, "4"]
    process: Float[Array, "4 6"]


class Ternary(MixtureProblem):
    """x = (x_A, x_B, p_1 .. p_6): a composition with x_C = 1 - x_A - x_B, and process parameters; y is a scalar.

    The phase is drawn from a softmin of quadratic Gibbs energies of the composition, so several modes share a thin
    region along the phase boundaries. Source: paper appendix (exp_ternary_phases).

    Args:
        gibbs_half: the energy is 1/2 x'Hx + b'x as in the published text, instead of x'Hx + b'x as in the released
            experiments, which alone gives the paper's phase masses.
    """

    name = "ternary"
    input_names = ("x_A", "x_B", *(f"p{i}" for i in range(1, N_PROCESS + 1)))
    output_names = ("y",)
    protocols: ClassVar = {
        "smoke": _PAPER.replace(
            n_pool=400, n_test=100, n_initial=40, n_rounds=2, n_query=5, n_members=2, n_components=3, width=16,
            batch_size=32, steps_per_label=1, min_steps=0,
        ),
        "demo": _PAPER.replace(
            n_pool=5_000, n_test=1_000, n_rounds=6, n_query=25, n_members=4, steps_per_label=10, min_steps=0,
        ),
        "paper": _PAPER,
    }  # fmt: skip
    offline_protocols: ClassVar = offline_protocols(
        _PAPER, 80_000, n_pool=100_000, n_test=10_000, batch_size=128, warmup_steps=1_000
    )
    offline_seed = 42

    def __init__(self, gibbs_half: bool = False) -> None:
        self.gibbs_half = gibbs_half

    def configured(self, options: Options) -> Problem:
        """The problem with the reading of the Gibbs energy that the options ask for.

        Raises:
            ValueError: this one was made with gibbs_half=True and the options say False.
        """
        if self.gibbs_half and not options.gibbs_half:
            raise ValueError("Ternary(gibbs_half=True) goes with protocol.replace(gibbs_half=True), which is recorded")
        return self if options.gibbs_half == self.gibbs_half else Ternary(options.gibbs_half)

    @cached_property
    def system(self) -> System:
        """Drawn on the CPU when first asked for."""
        with jax.default_device(cpu()):
            keys = jax.random.split(jax.random.key(SYSTEM_SEED), 10)

            def normal(index: int, *shape: int) -> Array:
                return jax.random.normal(keys[index], (N_PHASES, *shape))

            root = normal(0, 3, 3) * 0.5
            return System(
                hessian=jnp.einsum("pki,pkj->pij", root, root) + 0.3 * jnp.eye(3)[None],
                bias=normal(1, 3) * 2,
                mean_slope=normal(2, 3) * 6,
                mean_offset=normal(3) * 2,
                mean_frequency=normal(4, 3) * 2,
                log_variance_slope=normal(5, 3) * 0.5,
                log_variance_offset=normal(6) * 0.3 - 1,
                process=normal(7, N_PROCESS),
            )

    def phase_log_weights(self, composition: Float[Array, "n 3"]) -> Float[Array, "n 4"]:
        """log of each phase's probability at compositions (x_A, x_B, x_C)."""
        quadratic = jnp.einsum("ni,pij,nj->np", composition, self.system.hessian, composition)
        energy = (0.5 if self.gibbs_half else 1.0) * quadratic + composition @ self.system.bias.T
        return jax.nn.log_softmax(-energy / TEMPERATURE, axis=1)

    def sample(self, key: PRNGKey, n: int) -> Float[Array, "n 8"]:
        """n inputs: compositions uniform over the triangle, process parameters uniform over [-1, 1]."""
        return _inputs(jax.random.split(key, 3), n)

    def label(self, key: PRNGKey, x: ArrayLike) -> Float[Array, "n 1"]:
        """One draw of y at each row of x; ValueError when x is not (n, 8) or not finite."""
        x = self._checked_inputs(x)
        return self._labels(jax.random.split(key, len(x)), jnp.asarray(x))

    def _components(self, x: Float[Array, "n 8"]) -> Mixture:
        s = self.system
        composition = jnp.concatenate([x[:, :2], 1 - x[:, :1] - x[:, 1:2]], axis=1)
        wave = 0.5 * jnp.sin(composition @ s.mean_frequency.T)
        means = composition @ s.mean_slope.T + s.mean_offset[None] + wave + x[:, 2:] @ s.process.T
        log_variances = composition @ s.log_variance_slope.T + s.log_variance_offset[None]
        return Mixture(self.phase_log_weights(composition), means[..., None], jnp.exp(log_variances)[..., None])

    def _labels(self, keys: Key[Array, "n"], x: Float[Array, "n 8"]) -> Float[Array, "n 1"]:
        mixture = self._components(x)
        component_keys, noise_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
        noise = jax.vmap(jax.random.normal)(noise_keys)
        return draw_within(mixture, jax.vmap(draw_component)(component_keys, mixture), noise[:, None])

    def _make_dataset(self, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
        pool_key, test_key, _ = jax.random.split(jax.random.key(seed), 3)
        return Dataset(*self._labelled_set(pool_key, n_pool), *self._labelled_set(test_key, n_test))

    def inputs(
        self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100
    ) -> Float[np.ndarray, "N 8"]:
        """`dataset(...).x`, without drawing labels."""
        del n_test, n_initial
        with jax.default_device(cpu()):
            pool_key, _, _ = jax.random.split(jax.random.key(seed), 3)
            return np.asarray(_inputs(jax.random.split(pool_key, 3), n_pool))

    def offline_dataset(self, scale: str) -> Dataset:
        """The large set and its test set, from streams of their own."""
        protocol = self.offline_protocol(scale)
        with jax.default_device(cpu()):
            _, train_key, test_key = jax.random.split(jax.random.key(self.offline_seed), 3)
            sets = (*self._labelled_set(train_key, protocol.n_pool), *self._labelled_set(test_key, protocol.n_test))
        return Dataset(*map(np.asarray, sets))

    def _labelled_set(self, key: PRNGKey, n: int) -> tuple[Array, Array]:
        keys = jax.random.split(key, 3)
        x = _inputs(keys, n)
        return x, self._labels(jax.random.split(keys[2], n), x)


def composition_grid(n: int) -> Float[np.ndarray, "g 3"]:
    """All compositions (x_A, x_B, x_C) that are whole multiples of 1/n: (n + 1)(n + 2) / 2 rows, edges included.

    ValueError unless n is at least 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    a, b = (index.ravel() for index in np.mgrid[: n + 1, : n + 1])
    inside = a + b <= n
    return np.stack([a, b, n - a - b], axis=1)[inside].astype(np.float32) / n


def _inputs(keys: Key[Array, "3"], n: int) -> Float[Array, "n 8"]:
    composition = jax.random.dirichlet(keys[0], jnp.ones(3), (n,))
    process = jax.random.uniform(keys[1], (n, N_PROCESS), minval=-1, maxval=1)
    return jnp.concatenate([composition[:, :2], process], axis=1)
