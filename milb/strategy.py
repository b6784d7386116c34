"""Strategies: what to label next, by name.

A strategy is `strategy(key, ensemble, pool, k, options) -> (k,) dataset indices`. Those here pair an acquisition with
a selector; any function of that signature can stand in the registry beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from milb import acquisition, selection
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.protocol import Options


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pool:
    """The dataset as a strategy sees it. Labelled rows stay in place: an index always means a row of the dataset.

    Attributes:
        x: (N, dx), all inputs, raw units.
        available: (N,), rows that may be picked.
        labelled_rows: (n_max,), rows labelled so far, in a buffer of its final size.
        n_labelled: how many entries of labelled_rows count.
    """

    x: Float[Array, "N dx"]
    available: Bool[Array, "N"]
    labelled_rows: Int[Array, "n_max"]
    n_labelled: Int[Array, ""]


class Proposal(NamedTuple):
    """What a strategy picked, and the scores it picked by, (N,); None when it has none."""

    indices: Int[Array, "k"]
    scores: Float[Array, "N"] | None


Selector = Callable[[PRNGKey, Array, int, Array], Array]
Strategy = Callable[[PRNGKey, Ensemble, Pool, int, Options], Int[Array, "k"]]


@dataclass(frozen=True)
class Scored:
    """A strategy made of an acquisition and a selector `(key, scores, k, available) -> indices`.

    Attributes:
        score: see `milb.acquisition`.
        select: the selector.
        headroom: from scores to how far MI-LB is below its maximum, in nats; None when the score is not MI-LB.
    """

    score: acquisition.Acquisition
    select: Selector
    headroom: Callable[[Array, Ensemble], Array] | None = None

    def propose(self, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Proposal:
        """The picks and the scores behind them; usable inside jit."""
        score_key, select_key = jax.random.split(key)
        scores = acquisition.score_pool(self.score, score_key, ensemble, pool.x, options)
        return Proposal(self.select(select_key, scores, k, pool.available), scores)

    def __call__(
        self, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options | None = None
    ) -> Int[Array, "k"]:
        """The k dataset indices to label next.

        Raises:
            ValueError: k is not between 1 and the number of available rows, or a score is not finite.
        """
        return self.propose(key, ensemble, pool, k, Options() if options is None else options).indices


def top_k(key: PRNGKey, scores: Array, k: int, available: Array) -> Array:
    """`milb.selection.top_k` as a selector."""
    del key
    return selection.top_k(scores, k, available)


def top_k_ties_last(key: PRNGKey, scores: Array, k: int, available: Array) -> Array:
    """`milb.selection.top_k_ties_last` as a selector."""
    del key
    return selection.top_k_ties_last(scores, k, available)


def near_maximum_at_random(key: PRNGKey, scores: Array, k: int, available: Array) -> Array:
    """At random among available points within SATURATED nats of the best; then, if too few, the next best ones."""
    scores, available = selection.checked(scores, k, available)
    best = jnp.max(jnp.where(available, scores, -jnp.inf))
    below = scores - best + SATURATED
    lottery = jax.random.uniform(key, scores.shape)
    return selection.top_k(jnp.where(below >= 0, lottery, below), k, available)


def _headroom_of_gap(scores: Array, ensemble: Ensemble) -> Array:
    del ensemble
    return jnp.exp(-scores)


def _headroom_of_value(scores: Array, ensemble: Ensemble) -> Array:
    return acquisition.mi_lower_bound_maximum(ensemble) - scores


SATURATED = 0.01  # nats below its maximum within which MI-LB counts as saturated

STRATEGIES: dict[str, Strategy] = {
    "random": Scored(acquisition.random, top_k),
    "variance": Scored(acquisition.epistemic_variance, top_k),
    "mi-lb": Scored(acquisition.negative_log_overlap_gap, top_k, _headroom_of_gap),
    "mi-lb-released": Scored(acquisition.mi_lower_bound_released, top_k_ties_last, _headroom_of_value),
    "mi-lb-ties": Scored(acquisition.mi_lower_bound, near_maximum_at_random, _headroom_of_value),
}


def get(strategy: str | Strategy) -> Strategy:
    """The strategy of that name (ValueError lists the names there are), or the function itself."""
    if callable(strategy):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; there are {', '.join(map(repr, STRATEGIES))}")
    return STRATEGIES[strategy]


def propose(strategy: Strategy, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Proposal:
    """Any strategy's proposal: with scores where it has some, without for a plain function."""
    if isinstance(strategy, Scored):
        return strategy.propose(key, ensemble, pool, k, options)
    return Proposal(strategy(key, ensemble, pool, k, options), None)
