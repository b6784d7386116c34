"""References that bounds are tested against: slow, and right within a stated error."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from milb.mixture import GaussianMixture, PRNGKey, log_weights_of_members
from milb.protocol import integer_at_least


class MonteCarlo(NamedTuple):
    """A Monte-Carlo estimate and its standard error, both (...), in nats."""

    estimate: Float[Array, "*batch"]
    standard_error: Float[Array, "*batch"]


def mi_monte_carlo(
    key: PRNGKey,
    members: GaussianMixture,
    n_samples: int,
    member_weights: ArrayLike | None = None,
    block_size: int = 256,
) -> MonteCarlo:
    """Unbiased estimate of I(Y; Z | x) = sum_z w_z E[log p(y | x, z) - log p(y | x)], stratified over members.

    The reference that bounds are tested against; costs n_samples E^2 K density evaluations a point.

    Args:
        key: consumed here.
        members: the ensemble on axis 0: log_weights (E, ..., K), means and variances (E, ..., K, D).
        n_samples: draws from each member, at least 2; a few more where blocks of equal size need them.
        member_weights: w_z, (E,), summing to 1; None for equal weights.
        block_size: draws held in memory at once, at most.

    Raises:
        ValueError: n_samples is no integer >= 2, block_size none >= 1; members or weights as in `mi_lower_bound`.
    """
    n_samples, block_size = integer_at_least(2, "n_samples", n_samples), integer_at_least(1, "block_size", block_size)
    n_blocks = -(-n_samples // block_size)
    block_size = -(-n_samples // n_blocks)
    log_weights = log_weights_of_members(members, member_weights)
    return _monte_carlo(key, members, log_weights, n_blocks * block_size, block_size)


@partial(jax.jit, static_argnames=("n_samples", "block_size"))
def _monte_carlo(
    key: PRNGKey, members: GaussianMixture, log_member_weights: Float[Array, "E"], n_samples: int, block_size: int
) -> MonteCarlo:
    weights = jnp.exp(log_member_weights)
    marginal = members.marginal(weights)

    def log_ratio(y: Array) -> Array:
        return members.log_prob(y) - marginal.log_prob(y)

    def add_block(sums: tuple[Array, Array], block_key: PRNGKey) -> tuple[tuple[Array, Array], None]:
        y = members.sample(block_key, (block_size,))
        centred = log_ratio(y) - offset[None]
        return (sums[0] + centred.sum(0), sums[1] + (centred**2).sum(0)), None

    pilot_key, key = jax.random.split(key)
    # Squares are summed about an independent pilot value: about zero they would cancel in float32.
    offset = log_ratio(members.sample(pilot_key, (2,))).mean(0)
    zeros = jnp.zeros_like(offset)
    keys = jax.random.split(key, n_samples // block_size)
    (total, squares), _ = jax.lax.scan(add_block, (zeros, zeros), keys)
    mean = total / n_samples
    variance = jnp.maximum(squares / n_samples - mean**2, 0) / (n_samples - 1)
    lift = (slice(None),) + (None,) * (mean.ndim - 1)
    share = weights[lift]
    estimate = jnp.where(share > 0, share * (offset + mean), 0).sum(0)
    return MonteCarlo(estimate, jnp.sqrt(jnp.where(share > 0, share**2 * variance, 0).sum(0)))
