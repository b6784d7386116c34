"""What the example families share: settings, a multilayer perceptron, one training loop, ensembles of members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import PartitionSpec
from jaxtyping import Array, ArrayLike, Float, Int

from milb.checks import check_columns, unmasked
from milb.devices import AXIS, mesh_for
from milb.mdn import Standardisation
from milb.mixture import PRNGKey
from milb.protocol import check_scale, integer_at_least
from milb.training import standardise


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Of a training: networks and optimiser, for every family.

    Attributes:
        n_members: of an ensemble; families with a continuous Z have no members and do not look at it.
        width, depth: units of a hidden layer, hidden layers.
        n_steps, batch_size: gradient steps, and labels in each, drawn with replacement.
        learning_rate: Adam's at the start; it falls to 0 as a cosine.

    Raises:
        ValueError: a number is not positive, or a count no integer.
    """

    n_members: int = 5
    width: int = 32
    depth: int = 2
    n_steps: int = 2_000
    batch_size: int = 64
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        for name in ("n_members", "width", "depth", "n_steps", "batch_size"):
            integer_at_least(1, name, getattr(self, name))
        if not 0 < self.learning_rate < float("inf"):
            raise ValueError(f"learning_rate must be positive and finite, got {self.learning_rate!r}")


SETTINGS = {
    "smoke": Settings(n_members=2, width=16, n_steps=400, learning_rate=1e-2),
    "demo": Settings(),
    "paper": Settings(n_members=8, width=128, depth=3, n_steps=20_000, batch_size=128),
}


def settings(scale: str) -> Settings:
    """`SETTINGS` of a scale; ValueError unless it is "smoke", "demo" or "paper"."""
    check_scale(scale)
    return SETTINGS[scale]


class Perceptron(nn.Module):
    """`depth` hidden layers of `width` units with GELU, then a linear one."""

    width: int
    depth: int
    n_outputs: int

    @nn.compact
    def __call__(self, x: Float[Array, "*batch dx"]) -> Float[Array, "*batch n_outputs"]:
        """Inputs to outputs, both as standardised as the caller made them."""
        for _ in range(self.depth):
            x = nn.gelu(nn.Dense(self.width)(x))
        return nn.Dense(self.n_outputs)(x)


Loss = Callable[[Any, Array, Array, Array], Array]  # parameters, key, rows of this step, share of steps done


def minimise(key: PRNGKey, loss: Loss, parameters: Any, n_rows: int, settings: Settings) -> Any:
    """Parameters after `settings.n_steps` steps of Adam on loss(parameters, key, rows, progress); runs inside jit."""
    optimiser = optax.adam(optax.cosine_decay_schedule(settings.learning_rate, settings.n_steps))

    def step(t: Array, state: tuple[Any, Any]) -> tuple[Any, Any]:
        parameters, optimiser_state = state
        rows_key, loss_key = jax.random.split(jax.random.fold_in(key, t))
        rows = jax.random.randint(rows_key, (min(settings.batch_size, n_rows),), 0, n_rows)
        gradients = jax.grad(loss)(parameters, loss_key, rows, t / settings.n_steps)
        updates, optimiser_state = optimiser.update(gradients, optimiser_state)
        return optax.apply_updates(parameters, updates), optimiser_state

    return jax.lax.fori_loop(0, settings.n_steps, step, (parameters, optimiser.init(parameters)))[0]


def train_members(train: Callable[..., Any], key: PRNGKey, n_members: int, *data: Array) -> Any:
    """train(key, *data) for every member, vmapped and spread over devices; what it returns is stacked on axis 0."""
    spread, everywhere = PartitionSpec(AXIS), PartitionSpec()
    of_device = jax.vmap(train, in_axes=(0, *(None,) * len(data)))
    run = jax.shard_map(
        of_device,
        mesh=mesh_for(n_members),
        in_specs=(spread, *(everywhere,) * len(data)),
        out_specs=spread,
        check_vma=False,
    )
    return run(jax.random.split(key, n_members), *data)


@dataclass(frozen=True)
class MemberModel:
    """A Two-Index model whose Z picks one of E networks, each trained from its own start on its own mini-batches.

    Attributes:
        parameters: stacked over members on axis 0.
        inputs, outputs: standardisation of x and y.
        network: shared by the members (static).
    """

    parameters: Any
    inputs: Standardisation
    outputs: Standardisation
    network: nn.Module = field(metadata={"static": True})

    @property
    def n_members(self) -> int:
        """E: Z is uniform on 0 .. E - 1."""
        return jax.tree.leaves(self.parameters)[0].shape[0]

    def draw_z(self, key: PRNGKey, n: int) -> Int[Array, "n"]:
        """n members, with replacement."""
        return jax.random.randint(key, (n,), 0, self.n_members)

    def of_member(self, z: Int[ArrayLike, ""]) -> Any:
        """Parameters of one member."""
        return jax.tree.map(lambda leaf: leaf[z], self.parameters)

    def in_raw_units(self, y: Float[Array, "D"]) -> Float[Array, "D"]:
        """Undoes the standardisation of y."""
        return self.outputs.mean + self.outputs.scale * y


def checked_data(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Labels as float32 arrays; ValueError unless (N, dx) and (N, D), not empty, `milb.checks.check_columns`."""
    x, y = unmasked("x", x), unmasked("y", y)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not (x.size and y.size):
        raise ValueError(f"x must be (N, dx) and y (N, D) with one N, all >= 1, got {x.shape} and {y.shape}")
    for name, values in (("x", x), ("y", y)):
        check_columns(name, values)
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


def standardisation(values: Float[Array, "N d"]) -> Standardisation:
    """That of all rows, as `milb.training.standardise`."""
    return standardise(values, jnp.ones(len(values), bool))
