"""The Two-Index framework: Y = g(x; Z, epsilon), and what can be said of anything that speaks it.

A model is written for one input, one epistemic and one aleatoric index; milb maps it over many of each. Equation
(generative) of the paper: Z ~ P_Z and epsilon ~ P_epsilon are independent and fixed, g is learned.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from milb.mixture import PRNGKey
from milb.protocol import integer_at_least
from milb.two_index.decomposition import Decomposition, entropy_decomposition_log_densities, variance_decomposition
from milb.two_index.estimators import entropy_decomposition_nearest_neighbours

POINTS_AT_ONCE = 16


@runtime_checkable
class TwoIndexModel(Protocol):
    """What a model must offer. An index is an array or any pytree of arrays, of a shape that the model chooses.

    It may offer more, and then more can be said:

    * `log_prob(y, x, z)`, (), in nats: density (of classes: probability) of p(y | x, z) at one y;
    * `n_members`: Z is uniform on 0 .. n_members - 1, and every value is looked at, instead of draws.

    Register a model as a pytree (`jax.tree_util.register_dataclass`) and it is compiled once; a plain object works,
    one operation after the other.
    """

    def draw_z(self, key: PRNGKey, n: int) -> Any:
        """n epistemic indices, stacked on axis 0."""

    def draw_epsilon(self, key: PRNGKey, n: int) -> Any:
        """n aleatoric indices, stacked on axis 0."""

    def g(self, x: Float[Array, "dx"], z: Any, epsilon: Any) -> Float[Array, "D"]:
        """The output y of one input and one pair of indices, raw units: (D,), or () for a class."""


def check_model(model: Any) -> None:
    """TypeError that names what is missing, unless the model has the three methods of `TwoIndexModel`."""
    missing = [name for name in ("draw_z", "draw_epsilon", "g") if not callable(getattr(model, name, None))]
    if missing:
        raise TypeError(f"{type(model).__name__} is no TwoIndexModel: it has no method {', '.join(missing)}")


def epistemic_indices(key: PRNGKey, model: TwoIndexModel, n_z: int) -> Any:
    """All values of Z, where there are `model.n_members` of them; else n_z draws. Stacked on axis 0."""
    n_members = getattr(model, "n_members", None)
    return model.draw_z(key, n_z) if n_members is None else jnp.arange(n_members)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the arguments; compile for models that are pytrees, which a plain object is not."""
    jitted = jax.jit(function, static_argnames=("n_z", "n_epsilon"))

    @wraps(function)
    def checked(key: PRNGKey, model: TwoIndexModel, x: ArrayLike, n_z: int = 16, n_epsilon: int = 200) -> Any:
        check_model(model)
        x = jnp.asarray(x, jnp.float32)
        if x.ndim != 2:
            raise ValueError(f"x must have shape (B, dx), got {x.shape}")
        n_z, n_epsilon = integer_at_least(1, "n_z", n_z), integer_at_least(1, "n_epsilon", n_epsilon)
        run = function if jax.tree_util.all_leaves([model]) else jitted
        return run(key, model, x, n_z=n_z, n_epsilon=n_epsilon)

    return checked


@_compiled
def sample(key: PRNGKey, model: TwoIndexModel, x: ArrayLike, n_z: int = 16, n_epsilon: int = 200) -> Array:
    """Draws of y: the push-forward of P_epsilon under g(x; z, .), for every z; paper (aleatoric_conditional).

    A z has the same draws of epsilon at every x, so what is computed from them is smooth in x; other z have others.

    Args:
        key: consumed here.
        model: any `TwoIndexModel`.
        x: (B, dx), raw units.
        n_z: draws of Z; of no effect where Z has finitely many values, which then are taken all.
        n_epsilon: draws of epsilon for each z.

    Returns:
        (E, n_epsilon, B, D), or (E, n_epsilon, B) for classes; E is n_z or `model.n_members`.

    Raises:
        TypeError: no TwoIndexModel.
        ValueError: x is not (B, dx), a number of draws is not a positive integer, or draw_z stacks nothing.
    """
    z, epsilon = _draw_indices(key, model, n_z, n_epsilon)
    return jnp.moveaxis(_map_points(partial(_outputs, model, z, epsilon), x), 0, 2)


@_compiled
def cross_log_densities(key: PRNGKey, model: TwoIndexModel, x: ArrayLike, n_z: int = 16, n_epsilon: int = 200) -> Array:
    """log p(y | x, z') at draws y of every z, in nats: what the entropy decomposition is made of.

    Arguments, errors and draws as `sample`. Costs E^2 n_epsilon densities a point.

    Returns:
        (E, n_epsilon, E, B): [z, i, z', b].

    Raises:
        TypeError: the model has no log_prob either.
    """
    if not callable(getattr(model, "log_prob", None)):
        raise TypeError(f"{type(model).__name__} has no log_prob: estimate its entropies from samples")
    z, epsilon = _draw_indices(key, model, n_z, n_epsilon)

    def at_point(x: Float[Array, "dx"]) -> Float[Array, "E n E"]:
        of_z = jax.vmap(model.log_prob, in_axes=(None, None, 0))
        of_y = jax.vmap(jax.vmap(of_z, in_axes=(0, None, None)), in_axes=(0, None, None))
        found = of_y(_outputs(model, z, epsilon, x), x, z)
        if found.ndim != 3:
            raise ValueError(f"log_prob must return one number, not an array of shape {found.shape[3:]}")
        return found

    return jnp.moveaxis(_map_points(at_point, x), 0, -1)


def decompose_variance(
    key: PRNGKey, model: TwoIndexModel, x: ArrayLike, n_z: int = 16, n_epsilon: int = 200
) -> Decomposition:
    """`variance_decomposition` of a model's draws: three arrays (B, D). Arguments and errors as `sample`."""
    return variance_decomposition(sample(key, model, x, n_z, n_epsilon))


def decompose_entropy(
    key: PRNGKey,
    model: TwoIndexModel,
    x: ArrayLike,
    n_z: int = 16,
    n_epsilon: int = 200,
    estimator: Callable[[Array], Decomposition] = entropy_decomposition_nearest_neighbours,
) -> Decomposition:
    """Entropy decomposition of a model, three arrays (B,), in nats.

    Nested Monte Carlo where the model has `log_prob`, else an estimate from samples. The epistemic term is at most
    log E, as an estimate up to its error. Closed forms are better where they exist:
    `entropy_decomposition_categorical`, `entropy_bounds_mixture`.

    Args:
        key, model, x, n_z, n_epsilon: as in `sample`, with the same errors.
        estimator: for models without a density: samples (E, n, B, D) to a Decomposition.
    """
    if callable(getattr(model, "log_prob", None)):
        return entropy_decomposition_log_densities(cross_log_densities(key, model, x, n_z, n_epsilon))
    samples = sample(key, model, x, n_z, n_epsilon)
    if samples.ndim != 4:
        raise ValueError("g returns scalars: classes need a log_prob, and a real output an axis, y[None]")
    return estimator(samples)


def _draw_indices(key: PRNGKey, model: TwoIndexModel, n_z: int, n_epsilon: int) -> tuple[Any, Any]:
    """z stacked on E, epsilon on (E, n_epsilon)."""
    z_key, epsilon_key = jax.random.split(key)
    z = epistemic_indices(z_key, model, n_z)
    lengths = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(z)}
    if len(lengths) != 1 or not all(lengths) or lengths == {(0,)}:
        raise ValueError(f"draw_z must return arrays stacked on one axis 0, got {jax.tree.map(jnp.shape, z)}")
    keys = jax.random.split(epsilon_key, *lengths.pop())
    return z, jax.vmap(lambda key: model.draw_epsilon(key, n_epsilon))(keys)


def _outputs(model: TwoIndexModel, z: Any, epsilon: Any, x: Float[Array, "dx"]) -> Array:
    """g at one x for all pairs, (E, n_epsilon, ...)."""
    of_epsilon = jax.vmap(model.g, in_axes=(None, None, 0))
    return jax.vmap(of_epsilon, in_axes=(None, 0, 0))(x, z, epsilon)


def _map_points(function: Callable[[Array], Array], x: Float[Array, "B dx"]) -> Array:
    """Some points at once: memory does not grow with B."""
    return jax.lax.map(function, x, batch_size=min(POINTS_AT_ONCE, len(x)))
