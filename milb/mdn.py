"""Mixture density networks: the network of one member, and an ensemble of them with its standardisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from milb.devices import real_float32
from milb.mixture import Mixture, PRNGKey

VARIANCE_FLOOR = 1e-8  # what the released experiments add to (training, NLL) or floor (acquisition) variances with
SCALE_FLOOR = 1e-6  # what they add to the std that a column is divided by
CONSTANT = 1e-6  # a column whose range is so small, relative to its values, is rounding error in float32


@jax.custom_jvp
def softplus(x: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """log(1 + exp(x)) to float32's precision, in about 60 % of the time of `jax.nn.softplus` on a CPU.

    Every training step takes it of all E B K D variances, and XLA's log1p made it the largest single cost. It is
    max(x, 0) + log1p(u) with u = exp(-|x|) <= 1, and with s = u / (2 + u) <= 1/3

        log1p(u) = 2 artanh(s) = 2 s (1 + s^2 / 3 + s^4 / 5 + ... ),

    whose terms after s^12 are below 2e-8 of the sum, so that small values are as accurate, relatively, as large ones.
    """
    u = jnp.exp(-jnp.abs(x))
    twice_s = u / (1 + u / 2)
    series = reduce(lambda series, n: series * (twice_s / 2) ** 2 + 1 / n, (13, 11, 9, 7, 5, 3, 1), 0.0)
    return jnp.maximum(x, 0) + twice_s * series


softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] * jax.nn.sigmoid(*primals)))


class Heads(NamedTuple):
    """What the last hidden layer is turned into, for one member: logits (B, K, 1), the other two (B, K, D)."""

    logits: Float[Array, "*batch K 1"]
    means: Float[Array, "*batch K D"]
    variances: Float[Array, "*batch K D"]


class MixtureDensityNetwork(nn.Module):
    """`depth` dense layers with GELU after all but the last, whose linear output feeds three heads.

    Inputs and outputs are standardised. Three heads, not one that is cut in three: cutting costs four times the
    head's matrix product on a CPU. Kernels are lecun-normal, biases zero, variances softplus.
    """

    width: int
    depth: int
    n_components: int
    n_outputs: int

    def setup(self) -> None:
        """The layers, named as in the parameters: layers_0, …, logits, means, variances."""
        self.layers = [nn.Dense(self.width) for _ in range(self.depth)]
        self.logits = nn.DenseGeneral((self.n_components, 1))
        self.means = nn.DenseGeneral((self.n_components, self.n_outputs))
        self.variances = nn.DenseGeneral((self.n_components, self.n_outputs))

    def features(self, x: Float[Array, "*batch dx"]) -> Float[Array, "*batch width"]:
        """The linear output of the last dense layer."""
        for layer in self.layers[:-1]:
            x = nn.gelu(layer(x))
        return self.layers[-1](x)

    def __call__(self, x: Float[Array, "*batch dx"]) -> Heads:
        """Mixture parameters at standardised inputs, in standardised units."""
        features = self.features(x)
        return Heads(self.logits(features), self.means(features), softplus(self.variances(features)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Standardisation:
    """Columns are shifted by `mean` and divided by `scale`, both (d,)."""

    mean: Float[Array, "*batch d"]
    scale: Float[Array, "*batch d"]

    def __call__(self, values: Float[Array, "*batch d"]) -> Float[Array, "*batch d"]:
        """Standardised values; ValueError when they have other columns."""
        if values.shape[-1:] != self.mean.shape[-1:]:
            raise ValueError(f"expected {self.mean.shape[-1]} column(s), got an array of shape {values.shape}")
        lift = (None,) * (values.ndim - 1)
        return (values - self.mean[lift]) / self.scale[lift]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ensemble:
    """E networks trained on the same labels: which of them is right is the epistemic index Z.

    Attributes:
        parameters: the network's parameters, stacked over members on axis 0.
        inputs, outputs: standardisation of x and of y, fitted to the labels.
        network: the architecture that all members share (static).
    """

    parameters: Any
    inputs: Standardisation
    outputs: Standardisation
    network: MixtureDensityNetwork = field(metadata={"static": True})

    @property
    def n_members(self) -> int:
        """E."""
        return jax.tree.leaves(self.parameters)[0].shape[0]

    @property
    def n_inputs(self) -> int:
        """Columns of x."""
        return self.inputs.mean.shape[0]

    @property
    def n_outputs(self) -> int:
        """D, columns of y."""
        return self.outputs.mean.shape[0]


@partial(jax.jit, static_argnames=("network", "n_members", "n_inputs"))
def initialise(key: PRNGKey, network: MixtureDensityNetwork, n_members: int, n_inputs: int) -> Any:
    """Fresh parameters for every member, stacked on axis 0; member z depends on key and z only."""
    keys = jax.random.split(key, n_members)
    return jax.vmap(network.init, in_axes=(0, None))(keys, jnp.zeros((1, n_inputs)))


def first_member(ensemble: Ensemble) -> Ensemble:
    """Member 0 by itself, as an ensemble of one."""
    first = jax.tree.map(lambda leaf: leaf[:1], ensemble.parameters)
    return Ensemble(first, ensemble.inputs, ensemble.outputs, ensemble.network)


def predict(ensemble: Ensemble, x: ArrayLike) -> Mixture:
    """What each member predicts at x, in raw units of y: a Mixture with leading axes (E, B).

    A variance may be 0 where softplus or a unit leaves float32; `milb.acquisition` floors them at VARIANCE_FLOOR.

    Args:
        ensemble: as returned by `milb.training.fit`.
        x: (B, dx), raw units.

    Raises:
        ValueError: x is not (B, dx) with the dx of the ensemble.
    """
    with real_float32():
        heads = jax.vmap(ensemble.network.apply, in_axes=(0, None))(ensemble.parameters, _standardised(ensemble, x))
    shift, scale = (leaf[None, None, None] for leaf in (ensemble.outputs.mean, ensemble.outputs.scale))
    return Mixture(
        jax.nn.log_softmax(heads.logits[..., 0], axis=-1), shift + scale * heads.means, scale**2 * heads.variances
    )


def features(ensemble: Ensemble, x: ArrayLike) -> Float[Array, "E B width"]:
    """What each member's heads see at x: the linear output of its last dense layer. Errors as `predict`."""

    def of_member(parameters: Any, x: Array) -> Array:
        return ensemble.network.apply(parameters, x, method="features")

    with real_float32():
        return jax.vmap(of_member, in_axes=(0, None))(ensemble.parameters, _standardised(ensemble, x))


def _standardised(ensemble: Ensemble, x: ArrayLike) -> Float[Array, "B dx"]:
    x = jnp.asarray(x)
    if x.ndim != 2 or x.shape[1] != ensemble.n_inputs:
        raise ValueError(f"x must have shape (B, {ensemble.n_inputs}), got {x.shape}")
    return ensemble.inputs(x)
