"""Synthetic multimodal conditional: one mode inside a radius of the inputs, two sectors of modes outside."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from milb.devices import cpu
from milb.mixture import Mixture, PRNGKey
from milb.problems.mixture_problem import MixtureProblem, draw_component, draw_within
from milb.problems.problem import Dataset, offline_protocols
from milb.protocol import Protocol

N_INPUTS, N_OUTPUTS, N_LATENTS, N_MODES, N_FREQUENCIES = 10, 16, 4, 3, 128
OFFSET_SCALE = 10.0  # standard deviation of the modes' offsets
SHARPNESS, RADIUS, ANGULAR, LOGITS = 8.0, 1.3, 2.0, 3.0  # beta, r_0, gamma and "scale" of the mixing weights
DISTRIBUTION_SEED, MANIFOLD_SEED = 42, 1

_PAPER = Protocol(
    n_pool=50_000,
    n_test=2_000,
    n_initial=100,
    n_rounds=20,
    n_query=50,
    n_members=8,
    n_components=5,
    width=128,
    depth=2,
    batch_size=128,
    steps_per_label=10,
    max_steps=10_000,
    learning_rate=5e-4,
    weight_decay=1e-2,
)


class Parameters(NamedTuple):
    """What is drawn once and fixed: the manifold's A and b, and the distribution's Fourier map, means, variances."""

    manifold: Float[Array, "10 4"]
    manifold_shift: Float[Array, "10"]
    frequencies: Float[Array, "128 10"]
    phases: Float[Array, "128"]
    means: Float[Array, "3 16 128"]
    log_variances: Float[Array, "3 16 128"]
    offsets: Float[Array, "3 16"]
    directions: Float[Array, "2 4"]


class Multimodal(MixtureProblem):
    """A mixture of three Gaussians in 16 dimensions whose weights, means and variances depend on x in 10.

    Inputs lie on a 4-dimensional manifold, x = tanh(A l + b). Where r = |x_1:4| is below 1.3 one mode has nearly all
    the weight; beyond, two others take over by sector. Source: paper appendix (exp_multimodal).
    """

    name = "multimodal"
    input_names = tuple(f"x{i}" for i in range(N_INPUTS))
    output_names = tuple(f"y{i}" for i in range(N_OUTPUTS))
    protocols: ClassVar = {
        "smoke": _PAPER.replace(
            n_pool=400, n_test=100, n_initial=40, n_rounds=2, n_query=5, n_members=2, n_components=3, width=16,
            batch_size=32, steps_per_label=1,
        ),
        "demo": _PAPER.replace(
            n_pool=5_000, n_test=1_000, n_rounds=6, n_query=25, n_members=4, width=64, batch_size=64,
        ),
        "paper": _PAPER,
    }  # fmt: skip
    offline_protocols: ClassVar = offline_protocols(_PAPER, 80_000, weight_decay=1e-5, warmup_steps=2_000)
    offline_seed = 42

    @cached_property
    def parameters(self) -> Parameters:
        """Drawn on the CPU when first asked for."""
        with jax.default_device(cpu()):
            keys = jax.random.split(jax.random.key(DISTRIBUTION_SEED), 10)
            shift_key = jax.random.split(jax.random.key(MANIFOLD_SEED))
            directions = jax.random.normal(keys[9], (N_MODES - 1, N_LATENTS))
            per_mode = (N_MODES, N_OUTPUTS, N_FREQUENCIES)
            return Parameters(
                manifold=jax.random.normal(shift_key[0], (N_INPUTS, N_LATENTS)) / np.sqrt(N_LATENTS),
                manifold_shift=jax.random.normal(shift_key[1], (N_INPUTS,)),
                frequencies=jax.random.normal(keys[2], (N_FREQUENCIES, N_INPUTS)) / np.sqrt(N_INPUTS),
                phases=jax.random.uniform(keys[3], (N_FREQUENCIES,), minval=0, maxval=2 * np.pi),
                means=jax.random.normal(keys[5], per_mode) / np.sqrt(N_FREQUENCIES),
                log_variances=jax.random.normal(keys[6], per_mode) / np.sqrt(N_FREQUENCIES),
                offsets=jax.random.normal(keys[7], (N_MODES, N_OUTPUTS)) * OFFSET_SCALE,
                directions=directions / jnp.linalg.norm(directions, axis=1, keepdims=True),
            )

    def sample(self, key: PRNGKey, n: int) -> Float[Array, "n 10"]:
        """n inputs on the manifold."""
        latents = jax.random.normal(key, (n, N_LATENTS))
        return jnp.tanh(latents @ self.parameters.manifold.T + self.parameters.manifold_shift[None])

    def gate(self, x: Float[Array, "n 10"]) -> Float[Array, "n"]:
        """g(x), from 0 (one mode) inside the radius to 1 (sectors of modes) outside."""
        radius = jnp.linalg.norm(x[:, :N_LATENTS], axis=1)
        return 0.5 * (1 + jnp.tanh(SHARPNESS * (radius - RADIUS)))

    def label(self, key: PRNGKey, x: ArrayLike) -> Float[Array, "n 16"]:
        """One draw of y at each row of x; ValueError when x is not (n, 10) or not finite."""
        return _draw(key, self.components(x))

    def _components(self, x: Float[Array, "n 10"]) -> Mixture:
        p = self.parameters
        gate = self.gate(x)[:, None]
        sectors = jax.nn.softmax(ANGULAR * x[:, :N_LATENTS] @ p.directions.T, axis=1)
        log_weights = jax.nn.log_softmax(LOGITS * jnp.concatenate([1 - gate, gate * sectors], axis=1), axis=1)
        fourier = jnp.cos(x @ p.frequencies.T + p.phases[None])
        means = jnp.einsum("kmp,np->nkm", p.means, fourier) + p.offsets[None]
        means = means - (jnp.exp(log_weights)[..., None] * means).sum(1, keepdims=True)
        return Mixture(log_weights, means, jnp.exp(jnp.einsum("kmp,np->nkm", p.log_variances, fourier)))

    def _make_dataset(self, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
        _, data_key, order_key, _ = jax.random.split(jax.random.key(seed), 4)
        _, x_key, y_key = jax.random.split(data_key, 3)
        n = n_pool + n_test
        x = np.asarray(self.sample(x_key, n))
        y = np.asarray(self.label(y_key, x))
        order = np.asarray(jax.random.permutation(order_key, n))
        test, pool = order[:n_test], order[n_test:]
        return Dataset(x[pool], y[pool], x[test], y[test])

    def inputs(
        self, seed: int, n_pool: int = 50_000, n_test: int = 2_000, n_initial: int = 100
    ) -> Float[np.ndarray, "N 10"]:
        """`dataset(...).x`, without drawing labels."""
        del n_initial
        with jax.default_device(cpu()):
            _, data_key, order_key, _ = jax.random.split(jax.random.key(seed), 4)
            x = np.asarray(self.sample(jax.random.split(data_key, 3)[1], n_pool + n_test))
            return x[np.asarray(jax.random.permutation(order_key, n_pool + n_test))[n_test:]]


def _draw(key: PRNGKey, mixture: Mixture) -> Float[Array, "n 16"]:
    component_key, noise_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (len(mixture.log_weights), N_OUTPUTS))
    return draw_within(mixture, draw_component(component_key, mixture), noise)
