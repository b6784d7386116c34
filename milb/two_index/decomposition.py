"""Total = aleatoric + epistemic, for variance and for entropy: array functions, whatever model the arrays are from.

Sections "Variance-Based Decomposition" (var_decomp) and "Entropy-Based Decomposition" (entropy_decomp) of the paper.
Axis 0 is always the epistemic index, its values equally likely. Entropies are in nats.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import entr, logsumexp, rel_entr
from jaxtyping import Array, ArrayLike, Float

from milb import bounds
from milb.mixture import Mixture, is_concrete


class Decomposition(NamedTuple):
    """The three terms, of one shape: variances in squared units of y, or entropies in nats.

    Attributes:
        total: of the predictive distribution p(y | x).
        aleatoric: mean over z of that of p(y | x, z): what no label removes.
        epistemic: the variance over z of E[Y | x, z], or the mutual information I(Y; Z | x).
    """

    total: Float[Array, "..."]
    aleatoric: Float[Array, "..."]
    epistemic: Float[Array, "..."]


class Interval(NamedTuple):
    """Bounds on either side."""

    lower: Float[Array, "..."]
    upper: Float[Array, "..."]


@jax.jit
def variance_decomposition(samples: ArrayLike) -> Decomposition:
    """Law of total variance on a sample, dimension by dimension: the identity holds to rounding, whatever n.

    Population variances throughout, which is what makes it exact. Estimating the model's own terms, it is biased: of
    the aleatoric variance, aleatoric / n is missing, and (E - 1) / E of that is counted as epistemic.

    Args:
        samples: (E, n, ...), n draws of y for each of E values of z.

    Returns:
        three arrays (...), in squared units of y.

    Raises:
        ValueError: samples has no axes (E, n, ...), or no draws.
    """
    samples = jnp.asarray(samples)
    if samples.ndim < 2 or 0 in samples.shape[:2]:
        raise ValueError(f"samples must have shape (E, n, ...) with E and n at least 1, got {samples.shape}")
    return Decomposition(samples.var((0, 1)), samples.var(1).mean(0), samples.mean(1).var(0))


@jax.jit
def variance_decomposition_mixture(members: Mixture) -> Decomposition:
    """Law of total variance in closed form, dimension by dimension.

    Args:
        members: log_weights (E, ..., K), means and variances (E, ..., K, D).

    Returns:
        three arrays (..., D). ValueError where there is no axis of members.
    """
    return Decomposition(members.marginal().variance(), members.variance().mean(0), members.mean().var(0))


def entropy_decomposition_categorical(probabilities: ArrayLike) -> Decomposition:
    """Entropy of class labels, exact: the epistemic term is BALD (Houlsby et al. 2011).

    It is computed as the mean over z of KL(p(y | x, z) || p(y | x)): 0 for identical members, log E at most.

    Args:
        probabilities: (E, ..., C), summing to 1 over the classes; zeros are allowed.

    Raises:
        ValueError: fewer than two axes, or not probabilities (sum within 1e-4; inside jit only shapes are checked).
    """
    probabilities = jnp.asarray(probabilities)
    if probabilities.ndim < 2:
        raise ValueError(f"probabilities must have shape (E, ..., C), got {probabilities.shape}")
    if is_concrete(probabilities):
        sums = probabilities.sum(-1)
        if not (bool((probabilities >= 0).all()) and bool((abs(sums - 1) < 1e-4).all())):
            raise ValueError(
                f"probabilities must not be negative and sum to 1; they sum to {sums.min()} .. {sums.max()}"
            )
    return _of_categorical(probabilities)


@jax.jit
def entropy_bounds_mixture(members: Mixture) -> Interval:
    """Closed-form enclosure of all three terms, for members that are Gaussian mixtures: milb's bounds.

    Each term has its own tightest pair, so lower bounds do not add up to a lower bound, nor upper ones. The epistemic
    pair is `milb.bounds.mi_certificate` and `mi_upper_bound`.

    Args:
        members: log_weights (E, ..., K), means and variances (E, ..., K, D).

    Returns:
        lower and upper, each a Decomposition of arrays (...). ValueError where there is no axis of members.
    """
    marginal = members.marginal()
    return Interval(
        Decomposition(_entropy_lower(marginal), _entropy_lower(members).mean(0), bounds.mi_certificate(members)),
        Decomposition(_entropy_upper(marginal), _entropy_upper(members).mean(0), bounds.mi_upper_bound(members)),
    )


@jax.jit
def entropy_decomposition_log_densities(log_densities: ArrayLike) -> Decomposition:
    """Nested Monte Carlo: entropies of a model whose density can be evaluated; the identity holds to rounding.

    With y_zi the i-th draw for z, total = -mean log p(y_zi), p the mean over the E values of z, and aleatoric =
    -mean log p(y_zi | z). The epistemic term is at most log E, and 0 when all values of z agree. If these are all
    values of Z, every term is unbiased; if they are E draws of a continuous Z, see `mutual_information_range`.

    Args:
        log_densities: (E, n, E, ...), in nats: [z, i, z'] = log p(y_zi | x, z').

    Raises:
        ValueError: not of this shape.
    """
    own, others, log_e = _own_and_others(log_densities)
    marginal = jnp.logaddexp(own, others) - log_e
    return Decomposition(*(values.mean((0, 1)) for values in (-marginal, -own, own - marginal)))


@jax.jit
def epistemic_standard_error(log_densities: ArrayLike) -> Float[Array, "..."]:
    """Standard error (nats) of the epistemic term above, given these values of z; n at least 2, arguments as there."""
    own, others, log_e = _own_and_others(log_densities)
    if own.shape[1] < 2:
        raise ValueError(f"a standard error needs two draws of each z, got log_densities {np.shape(log_densities)}")
    ratio = own - (jnp.logaddexp(own, others) - log_e)
    return jnp.sqrt((ratio.var(1, ddof=1) / ratio.shape[1]).sum(0)) / len(ratio)


@jax.jit
def mutual_information_range(log_densities: ArrayLike) -> Interval:
    """What E draws of a continuous Z say about I(Y; Z | x), in nats: two estimates that enclose it in expectation.

    Lower: the marginal is averaged over all E, z's own density included; at most log E (prior contrastive estimation).
    Upper: over the E - 1 others (nested Monte Carlo); large and noisy where draws of z rarely overlap. Where the two
    agree, E was enough.

    Args:
        log_densities: (E, n, E, ...) as in `entropy_decomposition_log_densities`; E at least 2.

    Source: Poole et al. 2019; Foster et al. 2020.
    """
    own, others, log_e = _own_and_others(log_densities)
    if len(own) < 2:
        raise ValueError(f"an upper estimate needs two values of z, got log_densities {np.shape(log_densities)}")
    lower = (own - jnp.logaddexp(own, others) + log_e).mean((0, 1))
    upper = (own - others + jnp.log(len(own) - 1.0)).mean((0, 1))
    return Interval(lower, upper)


@jax.jit
def _of_categorical(probabilities: Float[Array, "E ... C"]) -> Decomposition:
    predictive = probabilities.mean(0)
    divergence = rel_entr(probabilities, jnp.broadcast_to(predictive[None], probabilities.shape)).sum(-1)
    return Decomposition(entr(predictive).sum(-1), entr(probabilities).sum(-1).mean(0), divergence.mean(0))


def _own_and_others(log_densities: ArrayLike) -> tuple[Array, Array, Array]:
    """log p(y_zi | z), log sum over z' != z of p(y_zi | z'), both (E, n, ...), and log E."""
    cross = jnp.asarray(log_densities)
    if cross.ndim < 3 or cross.shape[0] != cross.shape[2] or 0 in cross.shape[:3]:
        raise ValueError(f"log_densities must have shape (E, n, E, ...), got {cross.shape}")
    n_z = len(cross)
    is_own = jnp.eye(n_z, dtype=bool).reshape(n_z, 1, n_z, *(1,) * (cross.ndim - 3))
    own = jnp.where(is_own, cross, 0).sum(2)
    return own, logsumexp(jnp.where(is_own, -jnp.inf, cross), axis=2), jnp.log(float(n_z))


def _entropy_lower(mixture: Mixture) -> Array:
    return jnp.maximum(bounds.entropy_lower_bound(mixture), bounds.entropy_lower_bound_chernoff(mixture))


def _entropy_upper(mixture: Mixture) -> Array:
    return jnp.minimum(bounds.entropy_upper_bound_kl(mixture), bounds.entropy_upper_bound_moments(mixture))
