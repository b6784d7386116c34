"""Epinet for regression: one network, read with different epistemic indices; a Gaussian head for the noise.

    Z ~ N(0, I_d),  epsilon ~ N(0, I_D),  g(x; z, epsilon) = mu(x) + eta(x, z) + sigma(x) * epsilon

The epinet is eta(x, z) = (learned(features(x), x, z) + scale * prior(x, z)) . z. Its prior network is random and never
trained; the learned one must undo it where there are labels, and has no reason to where there are none. It reads
the base network's features and sends no gradient back into them. sigma does not depend on z, so

    E_Z H(Y | x, Z) = 1/2 log((2 pi e)^D prod_i sigma_i^2(x)),

and p(y | x, z) is a Gaussian: a second mode of y becomes noise.

Source: Osband et al. 2023; Appendix B of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.scipy.stats import norm
from jaxtyping import Array, ArrayLike, Float

from milb.mdn import Standardisation
from milb.mixture import LOG_2PI, PRNGKey
from milb.two_index.fitting import Perceptron, Settings, checked_data, minimise, standardisation

VARIANCE_FLOOR = 1e-6  # standardised units
N_DRAWS = 8  # of Z in a gradient step


class Base(nn.Module):
    """Features, mean and variance of y from x, in standardised units."""

    width: int
    depth: int
    n_outputs: int

    @nn.compact
    def __call__(self, x: Float[Array, "*batch dx"]) -> tuple[Array, Array, Array]:
        """Features (*batch, width); mean and variance (*batch, D)."""
        features = nn.gelu(Perceptron(self.width, self.depth - 1, self.width)(x))
        variance = jax.nn.softplus(nn.Dense(self.n_outputs)(features)) + VARIANCE_FLOOR
        return features, nn.Dense(self.n_outputs)(features), variance


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Epinet:
    """A trained epinet; a `milb.two_index.TwoIndexModel` with a Gaussian density.

    Attributes:
        base, learned, prior: parameters of the three networks; the prior's are as they were drawn.
        inputs, outputs: standardisation of x and y.
        base_network, index_network: architectures, the second of both learned and prior network (static).
        n_index: dimensions of Z (static).
        prior_scale: how much the prior network counts (static).
    """

    base: dict
    learned: dict
    prior: dict
    inputs: Standardisation
    outputs: Standardisation
    base_network: Base = field(metadata={"static": True})
    index_network: Perceptron = field(metadata={"static": True})
    n_index: int = field(metadata={"static": True})
    prior_scale: float = field(metadata={"static": True})

    def draw_z(self, key: PRNGKey, n: int) -> Float[Array, "n d"]:
        """Standard normal."""
        return jax.random.normal(key, (n, self.n_index))

    def draw_epsilon(self, key: PRNGKey, n: int) -> Float[Array, "n D"]:
        """Standard normal."""
        return jax.random.normal(key, (n, self.base_network.n_outputs))

    def mean_and_std(self, x: Float[Array, "dx"], z: Float[Array, "d"]) -> tuple[Array, Array]:
        """mu(x) + eta(x, z) and sigma(x), both (D,), raw units."""
        mean, variance = _predict(self, self.base, self.learned, self.inputs(x), z)
        return self.outputs.mean + self.outputs.scale * mean, self.outputs.scale * jnp.sqrt(variance)

    def g(self, x: Float[Array, "dx"], z: Float[Array, "d"], epsilon: Float[Array, "D"]) -> Float[Array, "D"]:
        """Mean and scaled noise, raw units."""
        mean, std = self.mean_and_std(x, z)
        return mean + std * epsilon

    def log_prob(self, y: Float[Array, "D"], x: Float[Array, "dx"], z: Float[Array, "d"]) -> Float[Array, ""]:
        """log p(y | x, z) in nats, raw units."""
        return norm.logpdf(y, *self.mean_and_std(x, z)).sum()


@jax.jit
def aleatoric_entropy(model: Epinet, x: ArrayLike) -> Float[Array, "B"]:
    """E_Z H(Y | x, Z) at each row of x (B, dx), in nats: closed form, no draw of Z needed."""
    x = jnp.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"x must have shape (B, dx), got {x.shape}")
    _, std = jax.vmap(model.mean_and_std, in_axes=(0, None))(x, jnp.zeros(model.n_index))
    return 0.5 * std.shape[-1] * (LOG_2PI + 1) + jnp.log(std).sum(-1)


def fit(
    key: PRNGKey, x: ArrayLike, y: ArrayLike, settings: Settings, n_index: int = 8, prior_scale: float = 1.0
) -> Epinet:
    """Train base and epinet together by the Gaussian likelihood, averaged over draws of Z.

    Args:
        key: consumed here.
        x, y: (N, dx) and (N, D), raw units.
        settings: see `milb.two_index.fitting.Settings`; n_members has no meaning here.
        n_index: dimensions of Z, at least 1.
        prior_scale: how much the prior network counts, not negative: the width of the prior, in std of y.

    Raises:
        ValueError: one of these is not as said, or x and y are not finite.
    """
    x, y = checked_data(x, y)
    if n_index < 1 or not prior_scale >= 0:
        raise ValueError(f"n_index must be at least 1, prior_scale not negative, got {n_index} and {prior_scale}")
    return _fit(key, x, y, settings, n_index, float(prior_scale))


@partial(jax.jit, static_argnames=("settings", "n_index", "prior_scale"))
def _fit(key: PRNGKey, x: Array, y: Array, settings: Settings, n_index: int, prior_scale: float) -> Epinet:
    base_network = Base(settings.width, settings.depth, y.shape[1])
    index_network = Perceptron(settings.width // 2, 1, y.shape[1] * n_index)
    inputs, outputs = standardisation(x), standardisation(y)
    x, y = inputs(x), outputs(y)
    base_key, learned_key, prior_key, key = jax.random.split(key, 4)
    base = base_network.init(base_key, x[0])
    learned = index_network.init(learned_key, jnp.zeros(settings.width + x.shape[1] + n_index))
    prior = index_network.init(prior_key, jnp.zeros(x.shape[1] + n_index))
    start = Epinet(base, learned, prior, inputs, outputs, base_network, index_network, n_index, prior_scale)

    def loss(parameters: tuple[dict, dict], key: PRNGKey, rows: Array, progress: Array) -> Array:
        del progress

        def log_likelihood(x: Array, y: Array, z: Array) -> Array:
            mean, variance = _predict(start, *parameters, x, z)
            return norm.logpdf(y, mean, jnp.sqrt(variance)).sum()

        over_rows = jax.vmap(log_likelihood, in_axes=(0, 0, None))
        return -jax.vmap(over_rows, in_axes=(None, None, 0))(x[rows], y[rows], start.draw_z(key, N_DRAWS)).mean()

    base, learned = minimise(key, loss, (base, learned), len(x), settings)
    return Epinet(base, learned, prior, inputs, outputs, base_network, index_network, n_index, prior_scale)


def _predict(model: Epinet, base: dict, learned: dict, x: Array, z: Array) -> tuple[Array, Array]:
    """Mean at z and variance of y at one x, standardised units, with these base and learned parameters."""
    features, mean, variance = model.base_network.apply(base, x)
    seen = jnp.concatenate([jax.lax.stop_gradient(features), x, z])
    rows = model.index_network.apply(learned, seen)
    rows += model.prior_scale * model.index_network.apply(model.prior, jnp.concatenate([x, z]))
    return mean + rows.reshape(-1, model.n_index) @ z / jnp.sqrt(model.n_index), variance
