"""Gaussian mixtures as pytrees: any leading axes, any number of components.

`GaussianMixture` is what all have in common, `Mixture` has diagonal covariances. Full ones: `milb.full_mixture`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float, Key, UInt32

Kind = TypeVar("Kind", bound="GaussianMixture")
LOG_2PI = float(np.log(2 * np.pi))
PRNGKey = Key[Array, ""] | UInt32[Array, "2"]  # of jax.random.key or of jax.random.PRNGKey


def is_concrete(*arrays: Any) -> bool:
    """Whether values can be looked at, i.e. we are not inside jit, vmap or grad."""
    return not any(isinstance(array, jax.core.Tracer) for array in arrays)


class GaussianMixture:
    """A batch of mixtures p(y) = sum_k w_k N(y; m_k, C_k), whatever describes the covariances C_k.

    A subclass adds, beside `sample`: component_variances() and log_pivots(), (..., K, D), the diagonals of the C_k and
    logs whose sum over D is log |C_k|; _minus_two_log_density(y), -2 log N(y; m_k, C_k), (..., K), of y (..., 1, D);
    and _mean_within(std), sum_k w_k C_k in units of std, (..., D, D).

    Attributes:
        log_weights: (..., K), normalised over K; -inf switches a component off.
        means: (..., K, D), in the units of y.
    """

    log_weights: Float[Array, "*batch K"]
    means: Float[Array, "*batch K D"]

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
        """log(w_k N(y; m_k, C_k)) in nats: the terms whose exponentials sum to p(y)."""
        y = jnp.asarray(y)
        if y.ndim == 0 or y.shape[-1] != self.n_dimensions:
            raise ValueError(f"y must have {self.n_dimensions} dimensions on its last axis, got shape {y.shape}")
        n_leading = max(y.ndim, self.log_weights.ndim) - 1
        y = y[(None,) * (n_leading + 1 - y.ndim)][..., None, :]
        lifted = jax.tree.map(lambda leaf: leaf[(None,) * (n_leading + 1 - self.log_weights.ndim)], self)
        return lifted.log_weights - 0.5 * lifted._minus_two_log_density(y)

    @jax.jit
    def log_prob(self, y: ArrayLike) -> Float[Array, "*batch"]:
        """log p(y) in nats; y (..., D) broadcasts against the mixture's leading axes. ValueError on a wrong D."""
        return logsumexp(self.component_log_prob(y), axis=-1)

    @jax.jit
    def mean(self) -> Float[Array, "*batch D"]:
        """E[Y], (..., D)."""
        return (jnp.exp(self.log_weights)[..., None] * self.means).sum(-2)

    @jax.jit
    def variance(self) -> Float[Array, "*batch D"]:
        """Var[Y_d] of each dimension, (..., D): within components plus between them."""
        between = (self.means - self.mean()[..., None, :]) ** 2
        return (jnp.exp(self.log_weights)[..., None] * (self.component_variances() + between)).sum(-2)

    @jax.jit
    def covariance(self) -> Float[Array, "*batch D D"]:
        """Cov[Y], (..., D, D)."""
        std = jnp.sqrt(self.variance())
        return self.correlation() * std[..., None, :] * std[..., :, None]

    @jax.jit
    def correlation(self) -> Float[Array, "*batch D D"]:
        """Correlation matrix of Y, (..., D, D)."""
        std = jnp.sqrt(self.variance())
        root_weights = jnp.exp(0.5 * self.log_weights)[..., None]
        between = root_weights * (self.means - self.mean()[..., None, :]) / std[..., None, :]
        # Not by a matrix product: many small ones cost a CPU more than their sums.
        return self._mean_within(std) + (between[..., :, None] * between[..., None, :]).sum(-3)

    def marginal(self: Kind, member_weights: ArrayLike | None = None) -> Kind:
        """The mixture over axis 0 (the members z): components (z, i) with weight w_z alpha_i, paper (marginal_gmm).

        Args:
            member_weights: w_z, (E,), summing to 1; None for equal weights. ValueError when they are not weights.
        """
        log_member_weights = log_weights_of_members(self, member_weights)
        n_axes = self.log_weights.ndim
        lift = (slice(None),) + (None,) * (n_axes - 1)
        leaves, structure = jax.tree.flatten(self)
        leaves[0] = leaves[0] + log_member_weights[lift]
        return jax.tree.unflatten(structure, [_merge_members(leaf, n_axes - 1) for leaf in leaves])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Mixture(GaussianMixture):
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
        return cls.checked(jax.nn.log_softmax(*real_arrays("Mixture", logits)), means, variances)

    @classmethod
    def checked(cls, log_weights: ArrayLike, means: ArrayLike, variances: ArrayLike) -> Mixture:
        """From arrays that may be wrong.

        Raises:
            ValueError: shapes that do not belong together, NaN, means or variances not finite, variances not
                positive, weights that do not sum to 1 (within 1e-4). Inside jit only shapes can be checked.
        """
        log_weights, means, variances = real_arrays("Mixture", log_weights, means, variances)
        if means.ndim < 2 or means.shape != variances.shape or means.shape[:-1] != log_weights.shape:
            raise ValueError(
                "a Mixture takes log_weights (..., K), means (..., K, D) and variances (..., K, D); "
                f"got {log_weights.shape}, {means.shape} and {variances.shape}"
            )
        check_weights_and_means("Mixture", log_weights, means)
        if is_concrete(variances):
            least = float(jnp.finfo(variances.dtype).tiny)  # below, JAX takes numbers for 0
            if not (np.isfinite(variances) & (np.asarray(variances) >= least)).all():
                raise ValueError(
                    f"variances must be finite and at least {least:.3g}, got a minimum of {np.min(variances)}"
                )
        return cls(log_weights, means, variances)

    def component_variances(self) -> Float[Array, "*batch K D"]:
        """The variances."""
        return self.variances

    def log_pivots(self) -> Float[Array, "*batch K D"]:
        """Logs of the variances."""
        return jnp.log(self.variances)

    def _minus_two_log_density(self, y: Array) -> Array:
        return ((y - self.means) ** 2 / self.variances + jnp.log(self.variances) + LOG_2PI).sum(-1)

    def _mean_within(self, std: Array) -> Array:
        variances = (jnp.exp(self.log_weights)[..., None] * self.variances).sum(-2) / std**2
        identity = jnp.broadcast_to(jnp.eye(self.n_dimensions, dtype=std.dtype), (*std.shape, std.shape[-1]))
        return identity * variances[..., None]

    @partial(jax.jit, static_argnames="sample_shape")
    def sample(self, key: PRNGKey, sample_shape: tuple[int, ...] = ()) -> Float[Array, "*samples D"]:
        """Independent draws, (*sample_shape, ..., D)."""
        noise_key, (mean, variance) = draw_leaves(key, self, sample_shape, self.means, self.variances)
        return mean + jnp.sqrt(variance) * jax.random.normal(noise_key, mean.shape, mean.dtype)


def draw_leaves(
    key: PRNGKey, mixture: GaussianMixture, sample_shape: tuple[int, ...], *leaves: Array
) -> tuple[PRNGKey, list[Array]]:
    """A key for what comes next, and each leaf (..., K, *tail) of a component drawn: (*sample_shape, ..., *tail)."""
    component_key, next_key = jax.random.split(key)
    shape = (*sample_shape, *mixture.log_weights.shape[:-1])
    component = jax.random.categorical(component_key, mixture.log_weights, shape=shape)
    chosen = jax.nn.one_hot(component, mixture.n_components, dtype=bool)
    lift = (None,) * len(sample_shape)
    axis = len(shape)

    def of_chosen(leaf: Array) -> Array:
        tail = (None,) * (leaf.ndim - mixture.log_weights.ndim)
        return jnp.where(chosen[(..., *tail)], leaf[lift], 0).sum(axis)

    return next_key, [of_chosen(leaf) for leaf in leaves]


def log_weights_of_members(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "E"]:
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
    """Members, axis 0, go in front of the components, `axis`, and the two become one axis."""
    moved = jnp.moveaxis(leaf, 0, axis - 1)
    merged = moved.shape[axis - 1] * moved.shape[axis]
    return moved.reshape(*moved.shape[: axis - 1], merged, *moved.shape[axis + 1 :])


def real_arrays(name: str, *arrays: ArrayLike) -> list[Array]:
    """The arrays in one floating-point type, at least float32; ValueError when they are no real numbers."""
    arrays = tuple(map(jnp.asarray, arrays))
    dtype = jnp.result_type(*arrays, jnp.float32)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise ValueError(f"a {name} takes real numbers, got {', '.join(str(array.dtype) for array in arrays)}")
    return [array.astype(dtype) for array in arrays]


def check_weights_and_means(name: str, log_weights: Array, means: Array) -> None:
    """ValueError unless there is something of them, weights sum to 1 and means are finite."""
    if 0 in means.shape[-2:]:
        raise ValueError(f"a {name} needs at least one component and one dimension, got means {means.shape}")
    if not is_concrete(log_weights, means):
        return
    log_weights, means = np.asarray(log_weights), np.asarray(means)
    if np.isnan(log_weights).any():
        raise ValueError("log_weights contain NaN")
    total = np.exp(log_weights).sum(-1)
    if not np.allclose(total, 1, rtol=0, atol=1e-4):
        raise ValueError(f"weights must sum to 1 over the last axis; they sum to {np.min(total)} .. {np.max(total)}")
    if not np.isfinite(means).all():
        raise ValueError("means contain NaN or infinity")
