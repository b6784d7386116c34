"""Gaussian mixtures with full covariances, given by their Cholesky factors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from milb.linalg import solve_lower
from milb.mixture import (
    LOG_2PI,
    GaussianMixture,
    PRNGKey,
    check_weights_and_means,
    draw_leaves,
    is_concrete,
    real_arrays,
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FullMixture(GaussianMixture):
    """A batch of Gaussian mixtures p(y) = sum_k w_k N(y; m_k, L_k L_k'), with covariances of any shape.

    It has the methods of `milb.Mixture`, and everything in `milb.bounds` takes either. The constructor checks nothing,
    so that it can run inside jit and vmap; `from_logits` and `checked` do. From covariances:
    `FullMixture.from_logits(logits, means, jnp.linalg.cholesky(covariances))`.

    Attributes:
        log_weights: (..., K), normalised over K; -inf switches a component off.
        means: (..., K, D), in the units of y.
        cholesky: (..., K, D, D), lower triangular L_k with a positive diagonal, in the units of y. Bounds compare
            components in pairs: the squared distance of two, in their widths, has in float32 a relative error of about
            1e-7 times the squared ratio of their axes, up to a ratio of 1e3.
    """

    log_weights: Float[Array, "*batch K"]
    means: Float[Array, "*batch K D"]
    cholesky: Float[Array, "*batch K D D"]

    @classmethod
    def from_logits(cls, logits: ArrayLike, means: ArrayLike, cholesky: ArrayLike) -> FullMixture:
        """From unnormalised log weights (..., K); ValueError as `checked`, once the logits are normalised."""
        return cls.checked(jax.nn.log_softmax(*real_arrays("FullMixture", logits)), means, cholesky)

    @classmethod
    def checked(cls, log_weights: ArrayLike, means: ArrayLike, cholesky: ArrayLike) -> FullMixture:
        """From arrays that may be wrong.

        Raises:
            ValueError: shapes that do not belong together, NaN, means or factors not finite, factors that are not
                lower triangular with a positive diagonal, weights that do not sum to 1 (within 1e-4). Inside jit only
                shapes can be checked.
        """
        log_weights, means, cholesky = real_arrays("FullMixture", log_weights, means, cholesky)
        square = (*means.shape, *means.shape[-1:])
        if means.ndim < 2 or cholesky.shape != square or means.shape[:-1] != log_weights.shape:
            raise ValueError(
                "a FullMixture takes log_weights (..., K), means (..., K, D) and cholesky (..., K, D, D); "
                f"got {log_weights.shape}, {means.shape} and {cholesky.shape}"
            )
        check_weights_and_means("FullMixture", log_weights, means)
        if is_concrete(cholesky):
            _check_cholesky(np.asarray(cholesky))
        return cls(log_weights, means, cholesky)

    def component_variances(self) -> Float[Array, "*batch K D"]:
        """Diagonals of the covariances L_k L_k'."""
        return (self.cholesky**2).sum(-1)

    def log_pivots(self) -> Float[Array, "*batch K D"]:
        """Logs of the squared diagonals of L_k."""
        return 2 * jnp.log(jnp.diagonal(self.cholesky, axis1=-2, axis2=-1))

    def _minus_two_log_density(self, y: Array) -> Array:
        inverse = inverse_of_triangular(self.cholesky)
        standardised = (inverse * (y - self.means)[..., None, :]).sum(-1)
        return (standardised**2 + self.log_pivots() + LOG_2PI).sum(-1)

    def _mean_within(self, std: Array) -> Array:
        rows = jnp.exp(0.5 * self.log_weights)[..., None, None] * self.cholesky / std[..., None, :, None]
        return jnp.einsum("...kdf,...kef->...de", rows, rows, precision="highest")

    @partial(jax.jit, static_argnames="sample_shape")
    def sample(self, key: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Float[Array, "*samples D"]:
        """Independent draws, (*sample_shape, ..., D)."""
        noise_key, (mean, root) = draw_leaves(key, self, sample_shape, self.means, self.cholesky)
        noise = jax.random.normal(noise_key, mean.shape, mean.dtype)
        return mean + (root * noise[..., None, :]).sum(-1)


def inverse_of_triangular(lower: Float[Array, "*batch D D"]) -> Float[Array, "*batch D D"]:
    """The inverses of lower triangular matrices."""
    lower = jnp.moveaxis(lower, (-2, -1), (0, 1))
    identity = jnp.eye(len(lower), dtype=lower.dtype)[(...,) + (None,) * (lower.ndim - 2)]
    return jnp.moveaxis(solve_lower(lower, jnp.broadcast_to(identity, lower.shape)), (0, 1), (-2, -1))


def _check_cholesky(cholesky: np.ndarray) -> None:
    if not np.isfinite(cholesky).all():
        raise ValueError("cholesky contains NaN or infinity")
    if np.triu(cholesky, 1).any():
        raise ValueError("cholesky must be lower triangular: entries above the diagonal must be 0")
    least = np.sqrt(np.finfo(cholesky.dtype).tiny)  # squared and below, JAX takes numbers for 0
    diagonal = np.diagonal(cholesky, axis1=-2, axis2=-1)
    if not (diagonal >= least).all():
        raise ValueError(f"cholesky must have a diagonal of at least {least:.3g}, got a minimum of {diagonal.min()}")
