"""A made-up furnace: two pathways compete for every batch of powder, and one of them takes all of it.

Physics. An amorphous precursor crystallises by one of two pathways: straight into a hard, fine-grained phase
(*direct*), or into a soft, coarse one by way of a layered *intermediate*. Both nucleate at random, as independent
Poisson processes with Arrhenius rates k_p, and the first nucleus seeds the whole batch; so the direct pathway wins with
probability k_d / (k_d + k_i). Its activation energy is the higher one, so heat favours it; a dopant speeds it up and
poisons the intermediate. Which pathway won decides the rest: conversion X follows Avrami's law
X = 1 - exp(-(g t)^m), hardness rises with X towards that of the phase, grains grow as d^2 = d_0^2 + K t with an
Arrhenius K. Both outputs are measured with Gaussian error. The numbers are of a likely size for a ceramic, and made up.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, ArrayLike, Float

from milb.devices import cpu
from milb.mixture import Mixture, PRNGKey
from milb.problems.mixture_problem import MixtureProblem, draw_component, draw_within
from milb.problems.problem import Dataset
from milb.protocol import Protocol

GAS_CONSTANT = 8.314e-3  # kJ / (mol K)
REFERENCE = 1_073.15  # K, 800 °C: where Arrhenius factors are 1
EQUAL_DOPANT = 2.0  # mol %, at which the pathways are equally fast at the reference temperature
TIMES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)  # hours that the furnace is run for
AMORPHOUS_HARDNESS = 3.0  # GPa


class Pathway(NamedTuple):
    """Constants of a pathway; energies in kJ/mol, times in hours."""

    nucleation_energy: float
    dopant_effect: float  # of the log rate, per mol %
    growth: float  # g of Avrami's law at the reference temperature, per hour
    growth_energy: float
    avrami: float  # m
    hardness: float  # GPa, of the fully converted phase without dopant
    hardening: float  # GPa per mol % of dopant
    hardness_std: float  # GPa
    first_grain: float  # d_0, micrometres
    coarsening: float  # K at the reference temperature, square micrometres per hour
    coarsening_energy: float


DIRECT = Pathway(330, 0.7, 0.8, 150, 1.5, 13.0, 0.6, 0.35, 0.4, 0.10, 180)
INTERMEDIATE = Pathway(170, -0.7, 0.5, 110, 2.5, 8.0, -0.4, 0.25, 0.9, 0.60, 230)

_DEMO = Protocol(
    n_pool=1_000,
    n_test=1_000,
    n_initial=20,
    n_rounds=6,
    n_query=10,
    n_members=8,
    n_components=3,
    width=64,
    depth=2,
    batch_size=64,
    steps_per_label=20,
    min_steps=300,
    max_steps=10_000,
    learning_rate=2e-3,
    weight_decay=2.5,
)


class Furnace(MixtureProblem):
    """x = (temperature in °C, time in h, dopant in mol %), y = (hardness in GPa, grain size in µm); see the module.

    It is no benchmark of the paper, so it is not in `milb.problems.PROBLEMS`; put it there to run studies on it.
    """

    name = "furnace"
    input_names = ("temperature_C", "time_h", "dopant_pct")
    output_names = ("hardness_GPa", "grain_um")
    protocols: ClassVar = {
        "smoke": _DEMO.replace(
            n_pool=200, n_test=100, n_rounds=2, n_query=5, n_members=2, width=16, steps_per_label=1, min_steps=0,
        ),
        "demo": _DEMO,
        "paper": _DEMO.replace(n_pool=5_000, n_test=2_000, n_rounds=12),
    }  # fmt: skip

    def sample(self, key: PRNGKey, n: int) -> Float[Array, "n 3"]:
        """n settings of the furnace: 650 to 950 °C in steps of 5, a time of TIMES, 0 to 4 mol % in steps of 0.25."""
        keys = jax.random.split(key, 3)
        temperature = 650 + 5 * jax.random.randint(keys[0], (n,), 0, 61)
        time = jax.random.choice(keys[1], jnp.array(TIMES), (n,))
        dopant = 0.25 * jax.random.randint(keys[2], (n,), 0, 17)
        return jnp.stack([temperature, time, dopant], axis=1).astype(jnp.float32)

    def label(self, key: PRNGKey, x: ArrayLike) -> Float[Array, "n 2"]:
        """One batch at each row of x, measured; ValueError when x is not (n, 3) or not finite."""
        mixture = self.components(x)
        component_key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (len(mixture.log_weights), self.n_outputs))
        return draw_within(mixture, draw_component(component_key, mixture), noise)

    def _components(self, x: Float[Array, "n 3"]) -> Mixture:
        """Component 0 is the direct pathway, component 1 the one by the intermediate."""
        log_rates, means, errors = zip(*(_outcome(pathway, x) for pathway in (DIRECT, INTERMEDIATE)), strict=True)
        log_weights = jax.nn.log_softmax(jnp.stack(log_rates, axis=1), axis=1)
        return Mixture(log_weights, jnp.stack(means, axis=1), jnp.stack(errors, axis=1) ** 2)

    def _make_dataset(self, seed: int, n_pool: int, n_test: int, n_initial: int) -> Dataset:
        keys = jax.random.split(jax.random.key(seed), 4)
        x, test_x = self.sample(keys[0], n_pool), self.sample(keys[1], n_test)
        return Dataset(x, self.label(keys[2], x), test_x, self.label(keys[3], test_x))


def tables(seed: int = 0, n_pool: int = 600, n_labelled: int = 24) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The files of a laboratory: candidates, and the first batches that were measured, at settings taken at random.

    What the notebook reads from notebooks/data/ is this, written by `to_csv(index=False)`.

    Returns:
        pool: columns id and the three inputs. labels: id and the two outputs, rounded as measured; the last one failed
        and is empty.

    Raises:
        ValueError: n_labelled is not from 1 to n_pool.
    """
    if not 1 <= n_labelled <= n_pool:
        raise ValueError(f"n_labelled must be from 1 to n_pool = {n_pool}, got {n_labelled}")
    problem = Furnace()
    with jax.default_device(cpu()):
        x_key, y_key = jax.random.split(jax.random.key(seed))
        x = np.asarray(problem.sample(x_key, n_pool))
        y = np.asarray(problem.label(y_key, x[:n_labelled]), float).round(2)
    y[-1] = np.nan
    pool = pd.DataFrame(x.astype(float).round(2), columns=list(problem.input_names))
    pool["temperature_C"] = pool["temperature_C"].astype(int)
    pool.insert(0, "id", [f"F{row:04d}" for row in range(1, n_pool + 1)])
    labels = pd.DataFrame(y, columns=list(problem.output_names))
    labels.insert(0, "id", pool["id"][:n_labelled])
    return pool, labels


@partial(jax.jit, static_argnames="pathway")
def _outcome(pathway: Pathway, x: Array) -> tuple[Array, Array, Array]:
    """Log nucleation rate (n,), and mean and standard deviation of both outputs, (n, 2), if this pathway wins."""
    temperature, time, dopant = x.T
    inverse = (1 / REFERENCE - 1 / (temperature + 273.15)) / GAS_CONSTANT  # mol / kJ
    log_rate = pathway.nucleation_energy * inverse + pathway.dopant_effect * (dopant - EQUAL_DOPANT)
    growth = pathway.growth * jnp.exp(pathway.growth_energy * inverse)
    conversion = 1 - jnp.exp(-((growth * time) ** pathway.avrami))
    full = pathway.hardness + pathway.hardening * dopant
    hardness = AMORPHOUS_HARDNESS + conversion * (full - AMORPHOUS_HARDNESS)
    coarsening = pathway.coarsening * jnp.exp(pathway.coarsening_energy * inverse)
    grain = jnp.sqrt(pathway.first_grain**2 + coarsening * time)
    spreads = jnp.stack([jnp.full_like(grain, pathway.hardness_std), 0.02 + 0.05 * grain], axis=1)
    return log_rate, jnp.stack([hardness, grain], axis=1), spreads
