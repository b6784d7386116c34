"""How much whole members disagree: overlaps between pairs of them, averaged with or without a member's own.

    -sum_z w_z log( lambda w_z + sum_{z' != z} w_z' rho_zz' ),   0 <= rho_zz' <= 1 the overlap of members z and z'

is a lower bound on the mutual information for lambda = 1 and a score without a cap for lambda = 0.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from milb.bounds.blocks import Block, over_lanes
from milb.bounds.huber import log_gap
from milb.bounds.pairs import between_members, log_sums, pair_logs, partners, weighted_sum
from milb.bounds.pairwise import log_chernoff
from milb.mixture import GaussianMixture, is_concrete, log_weights_of_members


def mi_lower_bound_members(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Lower bound on the mutual information I(Y; Z | x) from overlaps between whole members, in nats.

        I >= -sum_z w_z log sum_z' w_z' rho_zz',    rho_zz = 1,
        rho_zz' = min(1, sum_ij sqrt(alpha_zi alpha_z'j) e^{-C(zi, z'j)}),    C the Bhattacharyya divergence.

    Valid for any weights, means and variances. Between 0 (identical members) and H(w) (members far apart), so unlike
    MI-LB it pays no price for the number of dimensions; it is 0 too where members overlap so much that no rho is < 1.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), one bound a point.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Source: I = H(Y) - H(Y | Z), with the lower bound of Kolchinsky and Tracey 2017 on the entropy of a mixture whose
    components are the members, for which I >= -sum w_z log sum w_z' e^{-C_1/2(p_z, p_z')}; e^{-C_1/2} <= rho because
    the root of a sum is at most the sum of the roots.
    """
    return _disagreement(members, log_weights_of_members(members, member_weights), 1.0)


def mi_pairwise(members: GaussianMixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
    r"""Pairwise disagreement of members, a score in nats that does not saturate; not a bound.

        S = -sum_z w_z log( sum_{z' != z} w_z' rho_zz' / (1 - w_z) ),    rho as in `mi_lower_bound_members`.

    That bound without the overlap of a member with itself, which caps it at H(w): S is 0 for identical members and
    grows without end as they move apart. It is computed from log rho, so members far apart keep their ranks.
    Unlike MI-LB's gap it ignores overlap inside a member. 0 for a single member: there is nobody to disagree with.

    Args:
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), 0 or more, one score a point.

    Raises:
        ValueError: no ensemble axis, member_weights not (E,) or not weights.

    Not valid as an amount of information, nor comparable between ensembles of different sizes.
    """
    return _disagreement(members, log_weights_of_members(members, member_weights), 0.0)


def mi_disagreement(
    members: GaussianMixture, self_weight: float, member_weights: ArrayLike | None = None
) -> Float[Array, "*batch"]:
    r"""The family between `mi_lower_bound_members` (self_weight 1) and `mi_pairwise` (0), a score in nats.

        S = -sum_z w_z log( (lambda w_z + sum_{z' != z} w_z' rho_zz') / (lambda w_z + 1 - w_z) ),

    lambda the self_weight and rho as in `mi_lower_bound_members`. It says from which overlap on members count as apart:
    pairs with rho far below lambda cannot raise S any more. For lambda > 0 it is at most
    -sum_z w_z log(lambda w_z / (lambda w_z + 1 - w_z)), and near that rounding ranks it: rank by
    `log_disagreement_gap`.

    Args:
        members: the ensemble on axis 0, as in `mi_lower_bound_members`.
        self_weight: lambda, 0 or more.
        member_weights: w_z, (E,), summing to 1; None for equal weights.

    Returns:
        (...), 0 or more, one score a point; not a bound but for self_weight = 1.

    Raises:
        ValueError: self_weight negative or not finite; members and weights as in `mi_lower_bound_members`.
    """
    if is_concrete(self_weight) and not 0 <= self_weight < np.inf:
        raise ValueError(f"self_weight must be 0 or more and finite, got {self_weight}")
    return _disagreement(members, log_weights_of_members(members, member_weights), self_weight)


def log_disagreement_gap(
    members: GaussianMixture, self_weight: float, member_weights: ArrayLike | None = None
) -> Float[Array, "*batch"]:
    r"""Log of how far `mi_disagreement` stays below its largest value, kept in logs: rank by minus this.

        gap = sum_z w_z log(1 + sum_{z' != z} w_z' rho_zz' / (lambda w_z)) >= 0.

    Where members are far apart, it is the log of the mean overlap of a pair, and its order is that of the arithmetic
    mean of overlaps, while `mi_pairwise` orders by their geometric mean: one pair that agrees spoils the first more.

    Arguments, shapes and errors as in `mi_disagreement`, but self_weight must be positive; -inf for a single member.
    """
    if is_concrete(self_weight) and not 0 < self_weight < np.inf:
        raise ValueError(f"self_weight must be positive and finite, got {self_weight}")
    return _log_disagreement_gap(members, log_weights_of_members(members, member_weights), self_weight)


@jax.jit
def _disagreement(members: GaussianMixture, log_member_weights: Array, self_weight: Array | float) -> Array:
    weight_of = jnp.exp(log_member_weights)[None] * jnp.where(jnp.eye(len(members.means), dtype=bool), self_weight, 1)
    total = jnp.log(weight_of.sum(1))[:, None, None]
    alone = jnp.isneginf(total)
    log_w = log_member_weights[:, None, None]

    def of_block(block: Block) -> Array:
        log_average = jnp.logaddexp(log_w + jnp.log(self_weight), _log_others(block, log_w))
        below = jnp.minimum(jnp.where(alone, 0, log_average) - jnp.where(alone, 0, total), 0)
        return -weighted_sum(log_w, below, axis=(0, 1))

    return over_lanes(of_block, members.marginal(), len(members.means))


@jax.jit
def _log_disagreement_gap(members: GaussianMixture, log_member_weights: Array, self_weight: Array | float) -> Array:
    log_w = log_member_weights[:, None, None]

    def of_block(block: Block) -> Array:
        log_others = _log_others(block, log_w)
        weights = jnp.broadcast_to(log_w, log_others.shape)
        return log_gap(weights, log_others, weights + jnp.log(self_weight))

    return over_lanes(of_block, members.marginal(), len(members.means))


def _log_others(block: Block, log_member_weights: Array) -> Array:
    """`log_overlap_of_others` of a block of members of equal weight."""
    n_members, n_components = block.log_weights.shape[:2]
    (logs,) = pair_logs(log_chernoff(block, 0.5), block.leaves, between_members(n_members, n_components))
    return log_overlap_of_others(logs, block.log_weights + math.log(n_members), log_member_weights)


def log_overlap_of_others(logs: Array, log_alpha: Array, log_member_weights: Array) -> Array:
    """log sum_{z' != z} w_z' rho_zz', (E, 1, lanes).

    Args:
        logs: Bhattacharyya's -C between components of different members, (n_steps, E, K, lanes).
        log_alpha: (E, K, lanes), weights of the components in their members.
        log_member_weights: log w, (E, 1, 1).
    """
    n_members, n_components, lanes = log_alpha.shape
    logs = logs + 0.5 * (log_alpha[None] + partners(log_alpha, between_members(n_members, n_components)))
    logs = logs.reshape(n_members // 2, n_components, *log_alpha.shape)  # (s, j, z, i, lanes)
    log_rho = jnp.minimum(logsumexp(logs, axis=(1, 3)), 0)[:, :, None]
    log_member_weights = jnp.broadcast_to(log_member_weights, (n_members, 1, lanes))
    return log_sums((log_rho,), log_member_weights, between_members(n_members, 1))
