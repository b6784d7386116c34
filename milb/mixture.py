"""A Gaussian mixture with diagonal covariances, as a pytree: any leading axes, any number of components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, Key, UInt32

LOG_2PI = float(np.log(2 * np.pi))
PRNGKey = Key[Array, ""] | UInt32[Array, "2"]  # of jax.random.key or of jax.random.PRNGKey


def is_concrete(*arrays: ArrayLike) -> bool:
    """Whether values can be looked at, i.e. we are not inside jit, vmap or grad."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture:
    """A batch of Gaussian mixtures p(y) = sum_k w_k N(y; m_k, diag(v_k)), paper equation (per_z_gmm).

    The constructor checks nothing, so that it can run inside jit and vmap; `from_logits` and `checked` do.

    Attributes:
        log_weights: (..., K), normalised over K; -inf switches a component off.
        means: (..., K, D), in the units of y.
        variances: (..., K, D), positive, in the units of y squared.
    """

    log_weights: Float[Array, "*batch K"]
    means: Float[Array, "*batch K D"]
    variances: Float[Array, "*batch K D"]

    @classmethod
    def from_logits(cls, logits: ArrayLike, means: ArrayLike, variances: ArrayLike) -> Mixture:
        """From unnormalised log weights (..., K); ValueError as `checked`, once the logits are normalised."""
        logits = jnp.asarray(logits)
        return cls.checked(logits - logsumexp(logits, axis=-1, keepdims=True), means, variances)

    @classmethod
    def checked(cls, log_weights: ArrayLike, means: ArrayLike, variances: ArrayLike) -> Mixture:
        """From arrays that may be wrong.

        Raises:
            ValueError: shapes that do not belong together, NaN, means or variances not finite, variances not
                positive, weights that do not sum to 1 (within 1e-4). Inside jit only shapes can be checked.
        """
        arrays = tuple(map(jnp.asarray, (log_weights, means, variances)))
        dtype = jnp.result_type(*arrays, jnp.float32)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(f"a Mixture takes real numbers, got {', '.join(str(array.dtype) for array in arrays)}")
        log_weights, means, variances = (array.astype(dtype) for array in arrays)
        if means.ndim < 2 or means.shape != variances.shape or means.shape[:-1] != log_weights.shape:
            raise ValueError(
                "a Mixture takes log_weights (..., K), means (..., K, D) and variances (..., K, D); "
                f"got {log_weights.shape}, {means.shape} and {variances.shape}"
            )
        if 0 in means.shape[-2:]:
            raise ValueError(f"a Mixture needs at least one component and one dimension, got means {means.shape}")
        if is_concrete(log_weights, means, variances):
            _check_values(*map(np.asarray, (log_weights, means, variances)))
        return cls(log_weights, means, variances)

    @property
    def n_components(self) -> int:
        """K."""
        return self.means.shape[-2]

    @property
    def n_dimensions(self) -> int:
        """D."""
        return self.means.shape[-1]

    @jax.jit
    def component_log_prob(self, y: ArrayLike) -> Float[Array, "*batch K"]:
        """log(w_k N(y; m_k, v_k)) in nats: the terms whose exponentials sum to p(y)."""
        y = jnp.asarray(y)
        if y.ndim == 0 or y.shape[-1] != self.n_dimensions:
            raise ValueError(f"y must have {self.n_dimensions} dimensions on its last axis, got shape {y.shape}")
        batch = jnp.broadcast_shapes(y.shape[:-1], self.log_weights.shape[:-1])
        y = jnp.broadcast_to(y, (*batch, y.shape[-1]))[..., None, :]
        means, variances, log_weights = (
            jnp.broadcast_to(leaf, batch + leaf.shape[leaf.ndim - trailing :])
            for leaf, trailing in ((self.means, 2), (self.variances, 2), (self.log_weights, 1))
        )
        terms = (y - means) ** 2 / variances + jnp.log(variances) + LOG_2PI
        return log_weights - 0.5 * terms.sum(-1)

    @jax.jit
    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """log p(y) in nats; y (..., D) broadcasts against the mixture's leading axes. ValueError on a wrong D."""
        return logsumexp(self.component_log_prob(y), axis=-1)

    @partial(jax.jit, static_argnames="sample_shape")
    def sample(self, key: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Float[Array, "*samples D"]:
        """Independent draws, (*sample_shape, ..., D)."""
        component_key, noise_key = jax.random.split(key)
        shape = (*sample_shape, *self.log_weights.shape[:-1])
        component = jax.random.categorical(component_key, self.log_weights, shape=shape)
        chosen = jax.nn.one_hot(component, self.n_components, dtype=bool)[..., None]
        lift = (None,) * len(sample_shape)
        mean, variance = (jnp.where(chosen, leaf[lift], 0).sum(-2) for leaf in (self.means, self.variances))
        return mean + jnp.sqrt(variance) * jax.random.normal(noise_key, mean.shape, mean.dtype)

    @jax.jit
    def mean(self) -> Float[Array, "*batch D"]:
        """E[Y], (..., D)."""
        return (jnp.exp(self.log_weights)[..., None] * self.means).sum(-2)

    @jax.jit
    def variance(self) -> Float[Array, "*batch D"]:
        """Var[Y_d] of each dimension, (..., D): within components plus between them."""
        between = (self.means - self.mean()[..., None, :]) ** 2
        return (jnp.exp(self.log_weights)[..., None] * (self.variances + between)).sum(-2)

    def marginal(self, member_weights: ArrayLike | None = None) -> Mixture:
        """The mixture over axis 0 (the members z): components (z, i) with weight w_z alpha_i, paper (marginal_gmm).

        Args:
            member_weights: w_z, (E,), summing to 1; None for equal weights. ValueError when they are not weights.
        """
        log_member_weights = log_weights_of_members(self, member_weights)
        lift = (slice(None),) + (None,) * (self.log_weights.ndim - 1)
        return Mixture(
            _merge_members(self.log_weights + log_member_weights[lift], axis=-1),
            _merge_members(self.means, axis=-2),
            _merge_members(self.variances, axis=-2),
        )


def log_weights_of_members(members: Mixture, member_weights: ArrayLike | None = None) -> Float[Array, "E"]:
    """log w_z of the members on axis 0; ValueError when there is no such axis or they are not weights."""
    if members.log_weights.ndim < 2:
        raise ValueError(
            f"members must have the ensemble on axis 0: log_weights (E, ..., K), got {members.log_weights.shape}"
        )
    n_members = members.log_weights.shape[0]
    if member_weights is None:
        return jnp.full(n_members, -np.log(n_members), members.log_weights.dtype)
    member_weights = jnp.asarray(member_weights, members.log_weights.dtype)
    if member_weights.shape != (n_members,):
        raise ValueError(f"member_weights must have shape ({n_members},), got {member_weights.shape}")
    if is_concrete(member_weights):
        total = float(member_weights.sum())
        if not (bool((member_weights >= 0).all()) and abs(total - 1) < 1e-4):
            raise ValueError(f"member_weights must be non-negative and sum to 1, got {member_weights}")
    return jnp.log(member_weights)


def _merge_members(leaf: Array, axis: int) -> Array:
    moved = jnp.moveaxis(leaf, 0, axis - 1)
    merged = moved.shape[axis - 1] * moved.shape[axis]
    head, tail = moved.shape[: moved.ndim + axis - 1], moved.shape[moved.ndim + axis + 1 :]
    return moved.reshape(*head, merged, *tail)


def _check_values(log_weights: np.ndarray, means: np.ndarray, variances: np.ndarray) -> None:
    if np.isnan(log_weights).any():
        raise ValueError("log_weights contain NaN")
    total = np.exp(log_weights).sum(-1)
    if not np.allclose(total, 1, rtol=0, atol=1e-4):
        raise ValueError(f"weights must sum to 1 over the last axis; they sum to {np.min(total)} .. {np.max(total)}")
    if not np.isfinite(means).all():
        raise ValueError("means contain NaN or infinity")
    least = np.finfo(variances.dtype).tiny  # below, JAX takes numbers for 0
    if not (np.isfinite(variances) & (variances >= least)).all():
        raise ValueError(f"variances must be finite and at least {least:.3g}, got a minimum of {variances.min()}")
