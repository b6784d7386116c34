"""Ensemble of conditional flow matching models: Z picks a vector field, epsilon is where its flow starts.

    Z ~ Uniform{0 .. E - 1},  epsilon ~ N(0, I_D),  g(x; z, epsilon) = y(1),  dy/dt = v_z(t, y, x),  y(0) = epsilon.

v is trained towards y - epsilon on straight lines from epsilon to y. g is invertible in epsilon, so p(y | x, z) has a
density: integrate back from y, and add the divergence of v along the way. It costs D + 1 times a draw.

Needs diffrax, which comes with the extra `notebooks`; it is imported when a flow is first integrated.

Source: Lipman et al. 2022; Appendix B of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float, Int

from milb.mixture import PRNGKey
from milb.two_index.fitting import (
    MemberModel,
    Perceptron,
    Settings,
    checked_data,
    minimise,
    standardisation,
    train_members,
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FlowMatching(MemberModel):
    """A trained ensemble; a `milb.two_index.TwoIndexModel` with a density.

    Attributes:
        n_steps: of the ODE solver (Tsitouras' 5/4 method, steps of one size), static.
    """

    n_steps: int = field(default=10, metadata={"static": True})

    def draw_epsilon(self, key: PRNGKey, n: int) -> Float[Array, "n D"]:
        """Where the flow starts, standard normal."""
        return jax.random.normal(key, (n, self.network.n_outputs))

    def g(self, x: Float[Array, "dx"], z: Int[Array, ""], epsilon: Float[Array, "D"]) -> Float[Array, "D"]:
        """Where the flow arrives, raw units."""
        field = self._field(x, z)
        return self.in_raw_units(_solve(field, epsilon, 0.0, 1.0, self.n_steps))

    def log_prob(self, y: Float[Array, "D"], x: Float[Array, "dx"], z: Int[Array, ""]) -> Float[Array, ""]:
        """log p(y | x, z) in nats, raw units, up to the solver's error."""
        field = self._field(x, z)

        def with_divergence(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            return field(t, state[0]), jnp.trace(jax.jacfwd(field, argnums=1)(t, state[0]))

        start, log_volume = _solve(with_divergence, (self.outputs(y), jnp.zeros(())), 1.0, 0.0, self.n_steps)
        return norm.logpdf(start).sum() + log_volume - jnp.log(self.outputs.scale).sum()

    def _field(self, x: Array, z: Array):
        parameters, x = self.of_member(z), self.inputs(x)
        return lambda t, y: self.network.apply(parameters, _join(t, y, x))


def fit(key: PRNGKey, x: ArrayLike, y: ArrayLike, settings: Settings) -> FlowMatching:
    """Train all members by the conditional flow matching loss, with straight paths.

    Args:
        key: consumed here.
        x, y: (N, dx) and (N, D), raw units.
        settings: see `milb.two_index.fitting.Settings`.

    Raises:
        ValueError: x and y are not such arrays, or not finite.
    """
    return _fit(key, *checked_data(x, y), settings)


@partial(jax.jit, static_argnames="settings")
def _fit(key: PRNGKey, x: Array, y: Array, settings: Settings) -> FlowMatching:
    network = Perceptron(settings.width, settings.depth, y.shape[1])
    inputs, outputs = standardisation(x), standardisation(y)

    def train(key: PRNGKey, x: Array, y: Array) -> dict:
        init_key, key = jax.random.split(key)

        def loss(parameters: dict, key: PRNGKey, rows: Array, progress: Array) -> Array:
            del progress
            time_key, noise_key = jax.random.split(key)
            t = jax.random.uniform(time_key, (len(rows), 1))
            start, end = jax.random.normal(noise_key, y[rows].shape), y[rows]
            velocity = network.apply(parameters, _join(t, (1 - t) * start + t * end, x[rows]))
            return ((velocity - (end - start)) ** 2).sum(-1).mean()

        parameters = network.init(init_key, _join(jnp.zeros((1, 1)), y[:1], x[:1]))
        return minimise(key, loss, parameters, len(x), settings)

    parameters = train_members(train, key, settings.n_members, inputs(x), outputs(y))
    return FlowMatching(parameters, inputs, outputs, network)


def _join(t: Array, y: Float[Array, "*batch D"], x: Float[Array, "*batch dx"]) -> Float[Array, "*batch 1+D+dx"]:
    """What the network sees; t is (*batch, 1) or a scalar."""
    return jnp.concatenate([jnp.broadcast_to(t, (*y.shape[:-1], 1)), y, x], axis=-1)


def _solve(field: Any, start: Any, t0: float, t1: float, n_steps: int) -> Any:
    """The solution at t1 of dy/dt = field(t, y), y(t0) = start."""
    try:
        import diffrax
    except ImportError as error:
        raise ImportError("flow matching integrates with diffrax: pip install 'milb[notebooks]'") from error

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: field(t, y)),
        diffrax.Tsit5(),
        t0,
        t1,
        (t1 - t0) / n_steps,
        start,
        stepsize_controller=diffrax.ConstantStepSize(),
        adjoint=diffrax.ForwardMode(),  # a plain loop; the checkpoints of the default cost seconds to trace
        max_steps=n_steps + 1,
        throw=False,
    )
    return jax.tree.map(lambda leaf: leaf[0], solution.ys)
