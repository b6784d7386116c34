"""Two small problems that a picture can show: a curve that splits in two, and two moons."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from milb.mixture import Mixture, PRNGKey

LABELLED = ((-2.0, -0.8), (0.2, 2.0))  # where the split curve has labels; between and outside there are none
NOISE_STD = 0.15
UPPER_SHARE = 0.6


@jax.jit
def split_curve(x: ArrayLike) -> Mixture:
    """p(y | x) of a curve that splits in two near x = 0: a Mixture (B,), K = 2, D = 1.

    y = sin(2 x) / 2 +- 1.2 / (1 + e^(-3 x)), the upper branch with probability 0.6, and noise of standard deviation
    0.15. Left of x = -1 it has one mode, right of 0 two.

    Args:
        x: (B, 1). ValueError otherwise.
    """
    x = jnp.asarray(x)
    if x.ndim != 2 or x.shape[1] != 1:
        raise ValueError(f"x must have shape (B, 1), got {x.shape}")
    branch = 1.2 * jax.nn.sigmoid(3 * x)
    means = 0.5 * jnp.sin(2 * x) + jnp.concatenate([branch, -branch], axis=1)
    log_weights = jnp.log(jnp.broadcast_to(jnp.array([[UPPER_SHARE, 1 - UPPER_SHARE]]), means.shape))
    return Mixture(log_weights, means[..., None], jnp.full_like(means, NOISE_STD**2)[..., None])


@partial(jax.jit, static_argnames="n")
def split_curve_data(key: PRNGKey, n: int) -> tuple[Float[Array, "n 1"], Float[Array, "n 1"]]:
    """n labels (x, y) of `split_curve`, with x uniform on the two intervals of `LABELLED`."""
    x_key, y_key = jax.random.split(key)
    (start, gap_start), (gap_end, end) = LABELLED
    x = start + (end - start - (gap_end - gap_start)) * jax.random.uniform(x_key, (n, 1))
    x = jnp.where(x > gap_start, x + gap_end - gap_start, x)
    return x, split_curve(x).sample(y_key)


@partial(jax.jit, static_argnames="n")
def two_moons(key: PRNGKey, n: int, noise: float = 0.2) -> tuple[Float[Array, "n 2"], Int[Array, "n"]]:
    """n points on two interleaving half circles of radius 1, with Gaussian noise; the label says which half circle.

    Args:
        noise: standard deviation in both coordinates; from about 0.2 the classes overlap.
    """
    class_key, angle_key, noise_key = jax.random.split(key, 3)
    label = jax.random.bernoulli(class_key, shape=(n,)).astype(jnp.int32)
    angle = jnp.pi * jax.random.uniform(angle_key, (n,))
    upper = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    points = jnp.where(label[:, None] == 0, upper, jnp.array([[1.0, 0.5]]) - upper)
    return points + noise * jax.random.normal(noise_key, (n, 2)), label
