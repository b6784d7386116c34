"""Entropies of implicit models, which can be sampled and no more: kernel densities and nearest neighbours.

Both compare distances between draws, and distances say less and less as the number of output dimensions D grows:

* kernel density: smooths by a bandwidth that shrinks only as n^(-1/(D + 4)), so every density looks wider than it is.
  Entropies come out too large, and members, smoothed into each other, look alike: the epistemic term falls with D,
  and below 0.
* nearest neighbours: assumes the density constant within the ball that holds k draws, whose radius grows with D. The
  entropy is wrong in either direction; the epistemic term, in which errors cancel, falls more slowly.

Two Gaussian members 2 std apart, 200 draws of each, true epistemic term 0.34 nats: kernel densities give 0.30 at
D = 4 and 0.00 at D = 16, nearest neighbours 0.35 and 0.29. The aleatoric term is wrong by 0.17 and 2.5 nats, and by
-0.11 and 1.1. Where there is a density, use it.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, logsumexp
from jaxtyping import Array, ArrayLike, Float

from milb.mixture import LOG_2PI
from milb.two_index.decomposition import Decomposition, entropy_decomposition_log_densities

SHRINKAGES = (1.0, 0.5, 0.25, 0.125, 0.0625)


@partial(jax.jit, static_argnames="k")
def entropy_nearest_neighbours(samples: ArrayLike, k: int = 3) -> Float[Array, "..."]:
    """Differential entropy by k nearest neighbours, in nats.

    digamma(n) - digamma(k) + log V_D + D * mean log r_k, with r_k the distance to the k-th neighbour and V_D the volume
    of the unit ball. Repeated draws have none: -inf.

    Args:
        samples: (..., n, D).
        k: neighbours, 1 .. n - 1. Larger is less noisy and more biased.

    Raises:
        ValueError: fewer than two axes, or k out of range.

    Source: Kozachenko and Leonenko 1987; Kraskov et al. 2004.
    """
    samples = jnp.asarray(samples)
    if samples.ndim < 2 or not 1 <= k < samples.shape[-2]:
        raise ValueError(f"samples must have shape (..., n, D) with n > k = {k} >= 1, got {samples.shape}")
    radius = _kth_smallest(_squared_distances(samples, samples), k)
    return _entropy_of_radii(radius, k, samples.shape[-1])


@partial(jax.jit, static_argnames="k")
def entropy_decomposition_nearest_neighbours(samples: ArrayLike, k: int = 3) -> Decomposition:
    """Decomposition of the entropy of samples by k nearest neighbours, in nats.

    The aleatoric term is the mean over z of `entropy_nearest_neighbours`. The epistemic one compares, in the ball that
    holds a draw's k nearest of its own member, how many of all members there are: a difference of the entropies of
    E n and of n draws would carry the difference of their biases, this is 0 in expectation for identical members and
    about log E for disjoint ones. The total is their sum.

    Args:
        samples: (E, n, ..., D), n draws of y for each of E values of z.
        k: neighbours, 1 .. n - 1.

    Returns:
        three arrays (...).

    Raises:
        ValueError: fewer than three axes, or k out of range.

    Source: Ross 2014, for a discrete and a continuous variable.
    """
    samples = _checked(samples, least=k)
    n_z, n = samples.shape[:2]

    def at_point(samples: Float[Array, "E n D"]) -> tuple[Array, Array]:
        within = _squared_distances(samples, samples)
        radius = _kth_smallest(within, k)
        n_within = (within <= radius[..., None]).sum(-1) - 1  # not itself; k, unless draws repeat
        pooled = samples.reshape(n_z * n, -1)
        closer = _squared_distances(samples, jnp.broadcast_to(pooled[None], (n_z, *pooled.shape))) <= radius[..., None]
        n_closer = closer.sum(-1) - 1  # not itself
        n_all = 1.0 * n_z * n
        information = digamma(n_all) - digamma(1.0 * n) + (digamma(1.0 * n_within) - digamma(1.0 * n_closer)).mean()
        return _entropy_of_radii(radius, k, samples.shape[-1]).mean(), information

    aleatoric, epistemic = _over_points(at_point, samples)
    return Decomposition(aleatoric + epistemic, aleatoric, epistemic)


@partial(jax.jit, static_argnames="shrinkages")
def kernel_log_densities(samples: ArrayLike, shrinkages: tuple[float, ...] = SHRINKAGES) -> Float[Array, "E n E ..."]:
    """Log of Gaussian kernel densities of every member at every draw, in nats.

    Bandwidth of member z in dimension d: f (4 / ((D + 2) n))^(1/(D + 4)) std_zd, Silverman's rule times the one of
    `shrinkages` that gives its draws, each left out in turn, the largest likelihood. Silverman's rule alone, (1.0,), is
    made for one bump and smooths several into one. A draw is left out of its own member's density. A dimension that
    does not vary has no density: NaN.

    Args:
        samples: (E, n, ..., D); n at least 3.
        shrinkages: factors f to choose from.

    Returns:
        (E, n, E, ...): [z, i, z'] = log density of member z' at draw i of z.

    Source: Silverman 1986; Duin 1976 for the leave-one-out likelihood.
    """
    samples = _checked(samples, least=2)
    n_z, n, n_dimensions = samples.shape[0], samples.shape[1], samples.shape[-1]
    rule = (4 / ((n_dimensions + 2) * n)) ** (1 / (n_dimensions + 4))
    widths = jnp.asarray(shrinkages) * rule
    left_out = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, 0)

    def log_density(squares: Array, width: Array, log_std: Array, count: int) -> Array:
        log_norm = n_dimensions * (0.5 * LOG_2PI + jnp.log(width)) + log_std + jnp.log(float(count))
        return logsumexp(-0.5 * squares / width**2, axis=-1) - log_norm

    def at_point(samples: Float[Array, "E n D"]) -> Float[Array, "E n E"]:
        std = samples.std(1)

        def of_member(z: Array) -> Float[Array, "E n"]:
            scaled, log_std = samples / std[z][None, None], jnp.log(std[z]).sum()
            own_squares = _squared_distances(scaled[z], scaled[z]) + left_out
            own = jax.vmap(lambda width: log_density(own_squares, width, log_std, n - 1))(widths)
            best = jnp.argmax(own.mean(-1))
            centres = jnp.broadcast_to(scaled[z][None], scaled.shape)
            others = log_density(_squared_distances(scaled, centres), widths[best], log_std, n)
            return others.at[z].set(own[best])

        return jnp.moveaxis(jax.lax.map(of_member, jnp.arange(n_z)), 0, -1)

    return _over_points(at_point, samples)


def entropy_decomposition_kernel(samples: ArrayLike, shrinkages: tuple[float, ...] = SHRINKAGES) -> Decomposition:
    """Decomposition of the entropy of samples (E, n, ..., D) by `kernel_log_densities`, in nats; errors as there.

    The identity holds to rounding and the epistemic term is at most log E. For identical members it is not quite 0,
    and may be negative: a draw is left out of its own member's density and not of the others'.
    """
    return entropy_decomposition_log_densities(kernel_log_densities(samples, shrinkages))


def _checked(samples: ArrayLike, least: int) -> Array:
    samples = jnp.asarray(samples)
    if samples.ndim < 3 or not 1 <= least < samples.shape[1]:
        raise ValueError(f"samples must have shape (E, n, ..., D) with n > {least} >= 1, got {samples.shape}")
    return samples


def _over_points(function, samples: Float[Array, "E n ... D"]):
    """function of (E, n, D), at one point after another so that memory is one point's; batch axes go last."""
    batch = samples.shape[2:-1]
    points = jnp.moveaxis(samples.reshape(*samples.shape[:2], -1, samples.shape[-1]), 2, 0)
    rows = jax.lax.map(function, points)
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1).reshape(*leaf.shape[1:], *batch), rows)


def _squared_distances(a: Float[Array, "*batch n D"], b: Float[Array, "*batch m D"]) -> Float[Array, "*batch n m"]:
    """One dimension after the other, so that nothing of size n m D is held; equal pairs give equal bits."""
    squares = [(a[..., :, None, d] - b[..., None, :, d]) ** 2 for d in range(a.shape[-1])]
    return sum(squares[1:], squares[0])


def _kth_smallest(squares: Float[Array, "*batch n n"], k: int) -> Float[Array, "*batch n"]:
    """Of each row, not counting the draw itself, which is at 0."""
    return -jax.lax.top_k(-squares, k + 1)[0][..., -1]


def _entropy_of_radii(squared_radius: Float[Array, "*batch n"], k: int, n_dimensions: int) -> Float[Array, "*batch"]:
    n, half = squared_radius.shape[-1], 0.5 * n_dimensions
    log_ball = half * jnp.log(jnp.pi) - gammaln(half + 1)
    return digamma(1.0 * n) - digamma(1.0 * k) + log_ball + half * jnp.log(squared_radius).mean(-1)
