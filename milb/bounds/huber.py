"""Huber's bounds on the entropy of a Gaussian mixture, MI-LB and the matched difference, which are made of them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from milb.bounds.blocks import Block, Leaves, over_lanes
from milb.bounds.pairs import (
    LogKernel,
    between_members,
    entropy_of_weights,
    log_sum_of_pairs,
    weighted_sum,
    within_members,
)
from milb.mixture import LOG_2PI, GaussianMixture, log_weights_of_members


@jax.jit
def entropy_lower_bound(mixture: GaussianMixture) -> Float[Array, "*batch"]:
    """Huber's lower bound on the differential entropy, in nats.

    H_lower = -sum_i w_i log sum_j w_j N(m_i; m_j, C_i + C_j): Jensen's inequality on each component.
    Valid for any weights, means and variances; loose by D/2 (1 - log 2) for a single Gaussian.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Huber et al. 2008; paper equation (h_lower).
    """

    def of_block(block: Block) -> Array:
        log_density = jnp.logaddexp(block.log_weights + log_self_overlap(block), _log_others(block))
        log_density = log_density - 0.5 * mixture.n_dimensions * LOG_2PI
        return block.log_scale.sum((0, 1, 2)) - weighted_sum(block.log_weights, log_density, axis=(0, 1))

    return over_lanes(of_block, mixture)


@jax.jit
def entropy_upper_bound(mixture: GaussianMixture) -> Float[Array, "*batch"]:
    """Huber's upper bound on the differential entropy, in nats.

    H_upper = sum_i w_i (-log w_i + 1/2 log((2 pi e)^D |C_i|)): the entropy of Y and its component together.
    Tight when components do not overlap.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Huber et al. 2008; paper equation (h_upper).
    """
    return mean_component_entropy(mixture) - weighted_sum(mixture.log_weights, mixture.log_weights, axis=-1)


def mean_component_entropy(mixture: GaussianMixture) -> Float[Array, "*batch"]:
    """sum_i w_i 1/2 log((2 pi e)^D |C_i|), in nats, (...)."""
    entropies = 0.5 * (mixture.n_dimensions * (LOG_2PI + 1) + mixture.log_pivots().sum(-1))
    return weighted_sum(mixture.log_weights, entropies, axis=-1)


def log_overlap_gap(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Log of the overlap gap: how far MI-LB stays below the largest value it can take, kept in logs.

    With m running over all components (z, i), b_m = w_z alpha_i and t_mn = N(m_m; m_n, C_m + C_n),

        gap = sum_m b_m log(1 + sum_{n != m} b_n t_mn / (b_m t_mm)) >= 0.

    Small when the members predict components far from each other, i.e. when they disagree. Ranking by -log gap
    ranks by MI-LB, without the rounding of a difference of entropies and without ties where MI-LB saturates.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), log of the gap in nats; -inf for a single component.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Derivation: see `mi_lower_bound`. Float32 holds it while the variances of one dimension of one mixture span at
    most 1e24; their common scale does not matter.
    """
    return _log_overlap_gap(members, log_weights_of_members(members, member_weights))


def mi_lower_bound(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""MI-LB, a lower bound on the mutual information I(Y; Z | x) between output and ensemble member, in nats.

    MI-LB = H_lower(marginal) - sum_z w_z H_upper(member z), computed as a constant minus an overlap gap:

        MI-LB = H(w) - D/2 (1 - log 2) - gap.

    Derivation. Let b_m = w_z alpha_i and t_mn as in `log_overlap_gap`; t_mm = (4 pi)^(-D/2) |C_m|^(-1/2). Pull the
    m-th term out of the inner sum of H_lower:

        H_lower = -sum_m b_m log(b_m t_mm) - gap
                = -sum_m b_m log b_m + 1/2 sum_m b_m log((4 pi)^D |C_m|) - gap.

    The members' upper bounds average to -sum_z w_z sum_i alpha_i log alpha_i + 1/2 sum_m b_m log((2 pi e)^D |C_m|).
    In the difference the determinants cancel, -sum b log b + sum w alpha log alpha = -sum w log w = H(w), and
    what is left of the constants is D/2 (log 4 pi - log 2 pi e) = -D/2 (1 - log 2).

    Often negative in many dimensions: that is slack of the bound, not negative information. It saturates at
    H(w) - D/2 (1 - log 2) once no two components overlap; rank by `log_overlap_gap` there.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), one bound a point.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Source: paper equation (gee) and theorem (gee_lb); the identity is derived above.
    """
    return _mi_lower_bound(members, log_weights_of_members(members, member_weights))


@jax.jit
def _mi_lower_bound(members: GaussianMixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    gap = jnp.exp(_log_overlap_gap(members, log_member_weights))
    return mi_lower_bound_maximum(log_member_weights, members.n_dimensions) - gap


def mi_lower_bound_maximum(log_member_weights: Float[Array, "E"], n_dimensions: int) -> Float[Array, ""]:
    """H(w) - D/2 (1 - log 2): the value of MI-LB, in nats, when no two components overlap."""
    return entropy_of_weights(log_member_weights) - 0.5 * n_dimensions * (1 - math.log(2))


def mi_matched(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Huber's lower bound of the marginal minus the mean of the members' own, in nats; not a bound on I(Y; Z | x).

    The slack of both cancels: 0 for identical members, H(w) at most. Computed as H(w) - e^{log_matched_gap}, which
    has no difference of entropies in it; it saturates at H(w), where `log_matched_gap` still ranks.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), one score a point, H(w) at most. It may be slightly negative.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.
    """
    log_member_weights = log_weights_of_members(members, member_weights)
    return entropy_of_weights(log_member_weights) - jnp.exp(_log_matched_gap(members, log_member_weights))


def log_matched_gap(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Log of how far `mi_matched` stays below H(w), its largest value, kept in logs: rank by minus this.

    With m running over all components (z, i), b_m = w_z alpha_i and t_mn = N(m_m; m_n, C_m + C_n), let R_m be the
    overlap of m with its own member's other components, sum_n b_n t_mn / (b_m t_mm), and Q_m that with all other
    members'. By the derivation in `milb.bounds.mi_lower_bound`, applied to the marginal and to each member,

        mi_matched = H(w) - sum_m b_m log(1 + R_m + Q_m) + sum_z w_z sum_i alpha_i log(1 + R_zi)
                   = H(w) - sum_m b_m log(1 + Q_m / (1 + R_m)):

    the members' gaps cancel inside the logarithm, and what is left is positive term by term.

    Arguments, shapes and errors as in `mi_matched`; -inf for a single member.
    """
    return _log_matched_gap(members, log_weights_of_members(members, member_weights))


@jax.jit
def _log_overlap_gap(members: GaussianMixture, log_member_weights: Float[Array, "E"]) -> Float[Array, "*batch"]:
    def of_block(block: Block) -> Array:
        return log_gap(block.log_weights, _log_others(block), block.log_weights + log_self_overlap(block))

    return over_lanes(of_block, members.marginal(jnp.exp(log_member_weights)))


@jax.jit
def _log_matched_gap(members: GaussianMixture, log_member_weights: Array) -> Array:
    n_members, n_components = len(members.means), members.n_components

    def of_block(block: Block) -> Array:
        inside, outside = (
            log_sum_of_pairs(log_overlap(block), block.leaves[:-1], block.log_weights, shifts)
            for shifts in (within_members(n_components), between_members(n_members, n_components))
        )
        own = block.log_weights + log_self_overlap(block)
        return log_gap(block.log_weights, outside, jnp.logaddexp(own, inside))

    return over_lanes(of_block, members.marginal(jnp.exp(log_member_weights)), n_members)


def _log_others(block: Block) -> Array:
    """log sum_{n != m} b_n t_mn for every component m of a plain mixture, (1, M, lanes)."""
    shifts = within_members(block.log_weights.shape[1])
    return log_sum_of_pairs(log_overlap(block), block.leaves[:-1], block.log_weights, shifts)


def log_overlap(block: Block) -> LogKernel:
    """log t_mn without (2 pi)^(-D/2) and in the units of the block's scale."""

    def log_t(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        squares, log_det = block.pooled(here, there, 1.0, 1.0)
        return (-0.5 * (squares + log_det),)

    return log_t


def log_self_overlap(block: Block) -> Array:
    """log t_mm likewise, (E, K, lanes)."""
    return -0.5 * (block.log_det + len(block.log_scale) * math.log(2))


def log_gap(log_weights: Array, log_others: Array, log_own: Array) -> Array:
    """log sum_m b_m log(1 + others_m / own_m), (lanes,), from (E, K, lanes)."""
    no_term = jnp.isneginf(log_weights) | jnp.isneginf(log_others)
    log_ratio = jnp.where(no_term, 0, log_others - log_own)
    # log log(1 + e^r) is r - e^r / 2 to within e^2r for very negative r, where the plain formula would return -inf.
    tiny = log_ratio < -15
    series = log_ratio - 0.5 * jnp.exp(jnp.minimum(log_ratio, -15))
    log_log1p = jnp.where(tiny, series, jnp.log(jax.nn.softplus(jnp.where(tiny, 0, log_ratio))))
    return logsumexp(jnp.where(no_term, -jnp.inf, log_weights + log_log1p), axis=(0, 1))
