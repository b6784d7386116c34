"""Strategies: what to label next, by name.

A strategy is `strategy(key, ensemble, pool, k, options) -> (k,) dataset indices`. Those here pair an acquisition with
a selector; any function of that signature can stand in the registry beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from milb import acquisition, scoring, selection
from milb.mdn import Ensemble
from milb.mixture import PRNGKey
from milb.protocol import Options
from milb.selection.scores import checked_scores


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

    def labelled(self, features: Float[Array, "N d"]) -> tuple[Float[Array, "n_max d"], Bool[Array, "n_max"]]:
        """The labelled points' rows of the pool's features, in a buffer, and which of them count."""
        return features[self.labelled_rows], jnp.arange(len(self.labelled_rows)) < self.n_labelled


class Proposal(NamedTuple):
    """What a strategy picked, and the scores it picked by, (N,); None when it has none."""

    indices: Int[Array, "k"]
    scores: Float[Array, "N"] | None


Strategy = Callable[[PRNGKey, Ensemble, Pool, int, Options], Int[Array, "k"]]
Rule = Callable[[PRNGKey, Array, Ensemble, Pool, int, Options], Array]


@dataclass(frozen=True)
class Scored:
    """A strategy made of an acquisition and a rule `(key, scores, ensemble, pool, k, options) -> indices`.

    Attributes:
        score: see `milb.acquisition`.
        select: the rule, usually a selector of `milb.selection` with its options.
    """

    score: acquisition.Acquisition
    select: Rule

    def propose(self, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Proposal:
        """The picks and the scores behind them; usable inside jit."""
        score_key, select_key = jax.random.split(key)
        scores = scoring.score_pool(self.score, score_key, ensemble, pool.x, options)
        return Proposal(self.select(select_key, scores, ensemble, pool, k, options), scores)

    def __call__(
        self, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options | None = None
    ) -> Int[Array, "k"]:
        """The k dataset indices to label next.

        Raises:
            ValueError: k is not between 1 and the number of available rows, or a score is not finite.
        """
        return self.propose(key, ensemble, pool, k, Options() if options is None else options).indices


def top_k(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """The highest scores, ties to the lowest index."""
    return selection.top_k(scores, k, pool.available)


def top_k_ties_last(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """The highest scores, ties to the highest index: as the released experiments sort."""
    return selection.top_k_ties_last(scores, k, pool.available)


def near_maximum(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """At random among available points within SATURATED nats of the best; then, if too few, the next best ones."""
    scores, available = checked_scores(scores, k, pool.available)
    best = jnp.max(jnp.where(available, scores, -jnp.inf))
    below = scores - best + SATURATED
    lottery = jax.random.uniform(key, scores.shape)
    return selection.top_k(jnp.where(below >= 0, lottery, below), k, available)


def sbal(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """Draws from softmax(scores / options.sbal_temperature) without replacement."""
    return selection.sbal(key, scores, k, options.sbal_temperature, pool.available)


def max_dist(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """Far from labels and picks, weighted by scores; distances between what `options.max_dist_features` says."""
    features = MAX_DIST_FEATURES[options.max_dist_features](key, ensemble, pool, options)
    labelled, mask = pool.labelled(features)
    return selection.max_dist(scores, features, labelled, k, options.max_dist_weight, pool.available, mask)


def lcmd(key: PRNGKey, scores: Array, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Array:
    """Largest-cluster maximum distance among the CANDIDATES * k highest scores (and what ties with the last of them).

    Scores choose who may be picked, so only their ranks matter: they may saturate, or grow without end. Distances,
    between the members' means in units of the labels' standard deviation, choose whom to pick, away from labels too.
    """
    scores, available = checked_scores(scores, k, pool.available)
    ranked = jnp.where(available & jnp.isfinite(scores), scores, -jnp.inf)
    least = jnp.sort(ranked, descending=True)[min(CANDIDATES * k, len(scores)) - 1]
    unit = jnp.tile(ensemble.outputs.scale, ensemble.n_members)
    features = _means_as_features(key, ensemble, pool, options) / unit[None]
    labelled, mask = pool.labelled(features)
    return selection.lcmd(features, labelled, k, available=available & (ranked >= least), labelled_mask=mask)


def core_set(key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options | None = None) -> Array:
    """k-center-greedy on the features of member 0's last layer; no score."""
    features = scoring.map_pool(acquisition.last_layer, key, ensemble, pool.x, options or Options())
    labelled, mask = pool.labelled(features)
    return selection.k_center(features, labelled, k, pool.available, mask)


def bait(key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options | None = None) -> Array:
    """BAIT on the Fisher embeddings of member 0's mean head, one draw of y a point; no score."""
    options = options or Options()
    factors = scoring.map_pool(acquisition.fisher_factors, key, ensemble, pool.x, options)
    split = ensemble.network.n_components * ensemble.n_outputs
    labelled, mask = pool.labelled(factors)
    return selection.bait(
        factors[:, :split],
        factors[:, split:],
        labelled[:, :split],
        labelled[:, split:],
        k,
        options.bait_ridge,
        available=pool.available,
        labelled_mask=mask,
    )


def _means_as_features(key: PRNGKey, ensemble: Ensemble, pool: Pool, options: Options) -> Array:
    return scoring.map_pool(acquisition.member_means, key, ensemble, pool.x, options)


def _inputs_as_features(key: PRNGKey, ensemble: Ensemble, pool: Pool, options: Options) -> Array:
    return pool.x


MAX_DIST_FEATURES = {"means": _means_as_features, "inputs": _inputs_as_features}
_READ = {  # options that change a result, by the part that reads them
    acquisition.epistemic_variance: {"variance"},
    sbal: {"sbal_temperature"},
    max_dist: {"max_dist_weight", "max_dist_features"},
    bait: {"bait_ridge"},
}


CANDIDATES = 10  # times the batch: how many of the best scores LCMD picks from
SATURATED = 0.01  # nats below its maximum within which MI-LB counts as saturated

STRATEGIES: dict[str, Strategy] = {
    "random": Scored(acquisition.random, top_k),
    "variance": Scored(acquisition.epistemic_variance, top_k),
    "variance-sbal": Scored(acquisition.epistemic_variance, sbal),
    "mi-lb": Scored(acquisition.negative_log_overlap_gap, top_k),
    "mi-lb-released": Scored(acquisition.mi_lower_bound_released, top_k_ties_last),
    "mi-lb-ties": Scored(acquisition.mi_lower_bound, near_maximum),
    "mi-lb-sbal": Scored(acquisition.mi_lower_bound, sbal),
    "mi-lb-maxdist": Scored(acquisition.mi_lower_bound, max_dist),
    "mi-lb-lcmd": Scored(acquisition.negative_log_overlap_gap, lcmd),
    "mi-matched": Scored(acquisition.negative_log_matched_gap, top_k),
    "mi-members": Scored(acquisition.negative_log_disagreement_gap, top_k),
    "mi-pairwise": Scored(acquisition.mi_pairwise, top_k),
    "mi-pairwise-maxdist": Scored(acquisition.mi_pairwise, max_dist),
    "mi-pairwise-lcmd": Scored(acquisition.mi_pairwise, lcmd),
    "mi-certificate": Scored(acquisition.mi_certificate, top_k),
    "mi-monte-carlo": Scored(acquisition.mi_monte_carlo, top_k),
    "paide": Scored(acquisition.paide, top_k),
    "bait": bait,
    "core-set": core_set,
}


def _parts(strategy: Strategy) -> set[Any]:
    return {strategy.score, strategy.select} if type(strategy) is Scored else {strategy}


_OURS = frozenset().union(*map(_parts, STRATEGIES.values()))


def get(strategy: str | Strategy) -> Strategy:
    """The strategy of that name (ValueError lists the names there are), or the function itself."""
    if callable(strategy):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}; there are {', '.join(map(repr, STRATEGIES))}")
    return STRATEGIES[strategy]


def options_read(strategy: str | Strategy) -> frozenset[str]:
    """Names of the options that can change what it picks; of a strategy with a part that is not milb's, all."""
    parts = _parts(get(strategy))
    known = _READ.values() if parts - _OURS else (_READ.get(part, ()) for part in parts)
    return frozenset().union(*known)


def name_of(strategy: str | Strategy) -> str:
    """What records call it: its name in the registry, or for your own function where it is defined.

    Raises:
        ValueError: a lambda or partial function, which two runs could not be told apart by: give it a name.
    """
    if isinstance(strategy, str):
        return strategy
    if isinstance(strategy, Scored):
        return f"Scored({name_of(strategy.score)}, {name_of(strategy.select)})"
    name = getattr(strategy, "__qualname__", "<no name>").replace("<locals>.", "")
    if "<" in name:
        raise ValueError(
            f"a strategy needs a name to be recorded by: define {strategy!r} with def, in a module or cell"
        )
    return f"{strategy.__module__}.{name}"


def propose(strategy: Strategy, key: PRNGKey, ensemble: Ensemble, pool: Pool, k: int, options: Options) -> Proposal:
    """Any strategy's proposal: with scores where it has some, without for a plain function."""
    if isinstance(strategy, Scored):
        return strategy.propose(key, ensemble, pool, k, options)
    return Proposal(strategy(key, ensemble, pool, k, options), None)
