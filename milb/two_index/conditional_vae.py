"""Ensemble of conditional variational autoencoders: Z picks a decoder, epsilon is what is decoded.

The paper's decoder is deterministic given its latent code. Then p(y | x, z) lives on a surface of the latent dimension
and, where that is below D, has no density; its ELBO has no likelihood either. Here every decoder has Gaussian
observation noise, learned, one standard deviation an output, and **the noise counts as a part of epsilon**:

    Z ~ Uniform{0 .. E - 1},  epsilon = (l, u) ~ N(0, I),  g(x; z, epsilon) = decoder_z(x, l) + sigma_z * u.

So there is a density, but it is an integral over l: the model is implicit, and its entropies come from samples.

Source: Sohn, Lee and Yan 2015; Appendix B of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import flax.linen as nn
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

INITIAL_NOISE = 0.3  # standard deviation, standardised units: small enough that the code, not the noise, makes modes
WARM_UP = 0.5  # share of the steps over which the KL term's weight rises from 0 to 1, against posterior collapse


class Autoencoder(nn.Module):
    """Encoder, decoder and observation noise of one member, in standardised units."""

    width: int
    depth: int
    n_latent: int
    n_outputs: int

    def setup(self) -> None:
        """Two perceptrons and one number an output."""
        self.encoder = Perceptron(self.width, self.depth, 2 * self.n_latent)
        self.decoder = Perceptron(self.width, self.depth, self.n_outputs)
        self.log_noise = self.param("log_noise", nn.initializers.constant(jnp.log(INITIAL_NOISE)), (self.n_outputs,))

    def encode(self, x: Float[Array, "*batch dx"], y: Float[Array, "*batch D"]) -> tuple[Array, Array]:
        """Mean and log standard deviation of q(l | x, y)."""
        return tuple(jnp.split(self.encoder(jnp.concatenate([x, y], -1)), 2, axis=-1))

    def decode(self, x: Float[Array, "*batch dx"], latent: Float[Array, "*batch l"]) -> tuple[Array, Array]:
        """Mean (*batch, D) of y given x and l, and the noise's standard deviation (D,)."""
        return self.decoder(jnp.concatenate([x, latent], -1)), jnp.exp(self.log_noise)

    def __call__(self, x: Array, y: Array) -> None:
        """Makes all parameters."""
        self.decode(x, self.encode(x, y)[0])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConditionalVAE(MemberModel):
    """A trained ensemble; a `milb.two_index.TwoIndexModel` without a density."""

    def draw_epsilon(self, key: PRNGKey, n: int) -> Float[Array, "n l+D"]:
        """Latent code and observation noise, standard normal."""
        return jax.random.normal(key, (n, self.network.n_latent + self.network.n_outputs))

    def g(self, x: Float[Array, "dx"], z: Int[Array, ""], epsilon: Float[Array, "l+D"]) -> Float[Array, "D"]:
        """The decoded code plus noise, raw units."""
        latent, noise = jnp.split(epsilon, [self.network.n_latent])
        mean, std = self.network.apply(self.of_member(z), self.inputs(x), latent, method="decode")
        return self.in_raw_units(mean + std * noise)


def fit(key: PRNGKey, x: ArrayLike, y: ArrayLike, settings: Settings, n_latent: int = 2) -> ConditionalVAE:
    """Train all members by the ELBO; its KL term fades in.

    Args:
        key: consumed here.
        x, y: (N, dx) and (N, D), raw units.
        settings: see `milb.two_index.fitting.Settings`.
        n_latent: dimensions of the latent code, at least 1.

    Raises:
        ValueError: x and y are not such arrays, or not finite; n_latent < 1.
    """
    x, y = checked_data(x, y)
    if n_latent < 1:
        raise ValueError(f"n_latent must be at least 1, got {n_latent}")
    return _fit(key, x, y, settings, n_latent)


@partial(jax.jit, static_argnames=("settings", "n_latent"))
def _fit(key: PRNGKey, x: Array, y: Array, settings: Settings, n_latent: int) -> ConditionalVAE:
    network = Autoencoder(settings.width, settings.depth, n_latent, y.shape[1])
    inputs, outputs = standardisation(x), standardisation(y)

    def train(key: PRNGKey, x: Array, y: Array) -> dict:
        init_key, key = jax.random.split(key)

        def loss(parameters: dict, key: PRNGKey, rows: Array, progress: Array) -> Array:
            mean, log_std = network.apply(parameters, x[rows], y[rows], method="encode")
            latent = mean + jnp.exp(log_std) * jax.random.normal(key, mean.shape)
            decoded, noise = network.apply(parameters, x[rows], latent, method="decode")
            log_likelihood = norm.logpdf(y[rows], decoded, noise[None]).sum(-1)
            divergence = 0.5 * (mean**2 + jnp.exp(2 * log_std) - 1 - 2 * log_std).sum(-1)
            return (jnp.minimum(progress / WARM_UP, 1) * divergence - log_likelihood).mean()

        return minimise(key, loss, network.init(init_key, x[:1], y[:1]), len(x), settings)

    parameters = train_members(train, key, settings.n_members, inputs(x), outputs(y))
    return ConditionalVAE(parameters, inputs, outputs, network)
