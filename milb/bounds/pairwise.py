"""Bounds and scores from divergences between pairs: of components, and of members.

Each is O(M^2 D) for M components in D dimensions, as MI-LB is, and holds for any leading axes. Float32 holds them while
the variances of one dimension of one mixture span at most 1e24 and means are less than 1e18 standard deviations apart.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, ArrayLike, Float

from milb.bounds.huber import mean_component_entropy
from milb.bounds.pairs import (
    Block,
    Leaves,
    LogKernel,
    between_members,
    log_sum_of_pairs,
    log_sums,
    over_lanes,
    pair_logs,
    partners,
    sum_log,
    weighted_sum,
    within_members,
)
from milb.mixture import Mixture, log_weights_of_members


@jax.jit
def entropy_upper_bound_kl(mixture: Mixture) -> Float[Array, "*batch"]:
    """Upper bound on the differential entropy from Kullback-Leibler divergences between components, in nats.

    U_KL = sum_m w_m h_m - sum_m w_m log sum_n w_n e^{-KL(m || n)}, h_m the entropy of component m. Valid for any
    weights, means and variances; never above `milb.bounds.entropy_upper_bound`, exact for a single Gaussian.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).

    Returns:
        (...), one bound a mixture.

    Source: Kolchinsky and Tracey 2017.
    """

    def of_block(block: Block) -> Array:
        return _mean_log_similarity(block, *log_kl(block))

    return mean_component_entropy(mixture) - over_lanes(of_block, mixture)


def entropy_lower_bound_chernoff(mixture: Mixture, a: float = 0.5) -> Float[Array, "*batch"]:
    """Lower bound on the differential entropy from Chernoff divergences between components, in nats.

    L_a = sum_m w_m h_m - sum_m w_m log sum_n w_n e^{-C_a(m, n)}, C_a = -log of the integral of p_m^a p_n^(1 - a) and
    h_m the entropy of component m. Valid for any weights, means and variances; exact for a single Gaussian and where
    no components overlap. Neither above nor below `milb.bounds.entropy_lower_bound` in general.

    Args:
        mixture: log_weights (..., K), means and variances (..., K, D).
        a: a number, 0 .. 1; 1/2 (Bhattacharyya's) takes half the time of any other. 0 and 1 leave sum_m w_m h_m.

    Returns:
        (...), one bound a mixture.

    Raises:
        ValueError: a is not between 0 and 1.

    Source: Kolchinsky and Tracey 2017.
    """
    if not 0 <= a <= 1:
        raise ValueError(f"a must be between 0 and 1, got {a}")
    return _entropy_lower_bound_chernoff(mixture, float(a))


def mi_lower_bound_members(members: Mixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
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


def mi_pairwise(members: Mixture, member_weights: ArrayLike | None = None) -> Float[Array, "*batch"]:
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


@partial(jax.jit, static_argnames="a")
def _entropy_lower_bound_chernoff(mixture: Mixture, a: float) -> Array:
    def of_block(block: Block) -> Array:
        return _mean_log_similarity(block, *log_chernoff(block, a))

    return mean_component_entropy(mixture) - over_lanes(of_block, mixture)


@jax.jit
def _disagreement(members: Mixture, log_member_weights: Array, self_weight: Array | float) -> Array:
    """-sum_z w_z log of the average of rho_zz' over z', where z itself counts self_weight times its weight."""
    n_members, n_components = len(members.means), members.n_components
    weight_of = jnp.exp(log_member_weights)[None] * jnp.where(jnp.eye(n_members, dtype=bool), self_weight, 1)
    total = jnp.log(weight_of.sum(1))[:, None, None]
    alone = jnp.isneginf(total)
    log_w = log_member_weights[:, None, None]
    shifts = between_members(n_members, n_components)

    def of_block(block: Block) -> Array:
        (logs,) = pair_logs(*log_chernoff(block, 0.5), shifts)
        log_others = log_overlap_of_others(logs, block.log_weights + math.log(n_members), log_w)
        log_average = jnp.logaddexp(log_w + jnp.log(self_weight), log_others)
        below = jnp.minimum(jnp.where(alone, 0, log_average) - jnp.where(alone, 0, total), 0)
        return -weighted_sum(log_w, below, axis=(0, 1))

    return over_lanes(of_block, members.marginal(), n_members)


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


def _mean_log_similarity(block: Block, log_kernel: LogKernel, leaves: Leaves) -> Array:
    """sum_m b_m log sum_n b_n k(m, n) of a plain mixture, (lanes,), for a kernel with k(m, m) = 1."""
    shifts = within_members(block.log_weights.shape[1])
    log_others = log_sum_of_pairs(log_kernel, leaves, block.log_weights, shifts)
    return weighted_sum(block.log_weights, jnp.logaddexp(block.log_weights, log_others), axis=(0, 1))


def log_chernoff(block: Block, a: float) -> tuple[LogKernel, Leaves]:
    """-C_a(m, n) = log of the integral of p_m^a p_n^(1 - a), and the leaves that it is computed from."""

    def log_kernel(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        squares = block.squared_differences(here[0], there[0])

        def minus_divergence(a: float) -> Array:
            pooled = (1 - a) * here[1] + a * there[1]
            log_ratio = sum_log(pooled) - (1 - a) * here[2] - a * there[2]
            return -0.5 * (a * (1 - a) * (squares / pooled).sum(0) + log_ratio)

        return (minus_divergence(a),) if a == 0.5 else (minus_divergence(a), minus_divergence(1 - a))

    return log_kernel, (block.means, block.variances, sum_log(block.variances))


def log_kl(block: Block) -> tuple[LogKernel, Leaves]:
    """-KL(m || n) and -KL(n || m), and the leaves that they are computed from."""

    def log_kernel(here: Leaves, there: Leaves) -> tuple[Array, ...]:
        squares = block.squared_differences(here[0], there[0])
        ahead, behind = (
            ((of[1] + squares) / to[1]).sum(0) - len(squares) + to[2] - of[2]
            for of, to in ((here, there), (there, here))
        )
        return -0.5 * ahead, -0.5 * behind

    return log_kernel, (block.means, block.variances, sum_log(block.variances))
