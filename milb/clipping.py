"""Adaptive gradient clipping of an ensemble: gradients no larger than a share of the parameters, unit by unit.

Each rule takes gradients and parameters of this device's members, stacked on axis 0; the threshold; the number of all
members; and names of the device axes they are spread over, if any.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array


def _released(gradients: Any, parameters: Any, threshold: float, n_members: int, axes: tuple[str, ...]) -> Any:
    """optax.adaptive_grad_clip on arrays stacked over members, of a loss averaged over them (SPEC 1).

    Axes of a unit: (E,) of hidden kernels (E, in, out) and of all biases; (E, h, K) of a head's kernel
    (E, h, K, slots). Members on other devices take part through one sum of squares a step.
    """

    def squares(leaf: Array) -> Array:
        return jnp.sum(leaf**2, axis=(0, 1, 2) if leaf.ndim == 4 else (0,), keepdims=True)

    gradients = jax.tree.map(lambda gradient: gradient / n_members, gradients)
    here, unflatten = ravel_pytree(jax.tree.map(squares, (gradients, parameters)))
    gradient_squares, parameter_squares = unflatten(jax.lax.psum(here, axes))

    def clip(gradient: Array, gradient_squares: Array, parameter_squares: Array) -> Array:
        allowed = threshold * jnp.maximum(jnp.sqrt(parameter_squares), 1e-3)
        norm = jnp.sqrt(gradient_squares)
        return gradient * jnp.where(norm < allowed, 1, allowed / jnp.maximum(norm, 1e-6))

    return jax.tree.map(clip, gradients, gradient_squares, parameter_squares)


def _member(gradients: Any, parameters: Any, threshold: float, n_members: int, axes: tuple[str, ...]) -> Any:
    """Adaptive gradient clipping of each member by itself, as the method is defined."""
    clip = optax.adaptive_grad_clip(threshold)
    return jax.vmap(lambda g, p: clip.update(g, optax.EmptyState(), p)[0])(gradients, parameters)


CLIPS = {"released": _released, "member": _member}
