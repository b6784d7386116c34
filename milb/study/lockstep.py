"""A group of runs in lockstep: one program trains all of them, one program a strategy scores and selects."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key

from milb import strategy as strategies
from milb.checks import Data, checked_data, checked_picks
from milb.devices import on_one_device
from milb.history import (
    COLUMNS,
    SATURATION_SUBSET,
    SELECTION,
    TRAINING,
    in_standard_deviations,
    round_key,
    saturation,
    selection_record,
    subset_of,
    training_record,
)  # fmt: skip
from milb.mdn import Ensemble
from milb.problems import PROBLEMS
from milb.protocol import Options
from milb.strategy import Pool, Scored, Strategy
from milb.study.grid import Group
from milb.study.progress import Progress, clipped
from milb.study.training import train

# Plain functions that do nothing but answer: they may be called in threads, and on made-up networks.
_OURS = (strategies.bait, strategies.core_set)


class Proposals(NamedTuple):
    """One strategy's answers, seeds on axis 0.

    Attributes:
        indices: the picks; random ones where not sound.
        scores: None where the strategy has none; NaN where not sound.
        sound: False where training has diverged, or a score of an available row is not finite.
    """

    indices: Int[ArrayLike, "seeds k"]
    scores: Float[ArrayLike, "seeds N"] | None
    sound: Bool[ArrayLike, "seeds"]


def propose(
    strategy: Strategy,
    keys: Key[Array, "seeds"],
    ensembles: Ensemble,
    x: Float[Array, "seeds N dx"],
    rows: Int[Array, "seeds n_max"],
    n: Int[Array, ""],
    k: int,
    options: Options,
    trained: Bool[np.ndarray, "seeds"],
) -> Proposals:
    """One strategy's picks and scores on every seed.

    Acquisitions and their rules are vmapped over seeds; plain functions, which may work on the host as BAIT does, are
    called seed by seed. Where training has diverged, or scores are not finite, there is nothing to go by.
    """
    by_chance = partial(_propose_scored, strategies.get("random"), keys, ensembles, x, rows, n, k, options)
    if isinstance(strategy, Scored):
        indices, scores, finite = _propose_scored(strategy, keys, ensembles, x, rows, n, k, options)
        sound = np.asarray(finite) & trained
        if not sound.all():
            indices = jnp.where(sound[:, None], indices, by_chance()[0])
            scores = jnp.where(sound[:, None], scores, jnp.nan)
        return Proposals(indices, scores, sound)

    def of_seed(s: int) -> np.ndarray:
        if not trained[s]:
            return np.asarray(by_chance()[0][s])
        ensemble = jax.tree.map(lambda leaf: leaf[s], ensembles)
        return np.asarray(strategy(keys[s], ensemble, _pool(x[s], rows[s], n), k, options))

    at_once = jax.device_count() == 1 and strategy in _OURS
    with ThreadPoolExecutor(len(keys) if at_once else 1) as threads:
        return Proposals(np.stack(list(threads.map(of_seed, range(len(keys))))), None, trained)


@partial(jax.jit, static_argnames=("strategy", "k", "options"))
def _propose_scored(
    strategy: Scored, keys: Array, ensembles: Ensemble, x: Array, rows: Array, n: Array, k: int, options: Options
) -> tuple[Array, Array, Array]:
    """Picks, scores, and whether these are finite where they may be picked."""

    def of_seed(key: Array, ensemble: Ensemble, x: Array, rows: Array) -> tuple[Array, Array, Array]:
        pool = _pool(x, rows, n)
        indices, scores = strategy.propose(key, ensemble, pool, k, options)
        return indices, scores, (jnp.isfinite(scores) | ~pool.available).all()

    return jax.vmap(of_seed)(keys, ensembles, x, rows)


@jax.jit
def _saturation(ensembles: Ensemble, x: Float[Array, "seeds S dx"]) -> Float[Array, "seeds S 2"]:
    return jax.vmap(saturation)(ensembles, x)


def _arm(ensembles: Ensemble, a: int) -> Ensemble:
    return jax.tree.map(lambda leaf: leaf[:, a], ensembles)


@jax.jit
def _pool(x: Array, rows: Array, n: Array) -> Pool:
    labelled = jnp.where(jnp.arange(len(rows)) < n, rows, rows[0])
    return Pool(x, jnp.ones(len(x), bool).at[labelled].set(False), rows, n)


class Lockstep:
    """A group's data on the device, and its rounds."""

    def __init__(self, group: Group) -> None:
        self.group, protocol = group, group.protocol
        problem = PROBLEMS[group.benchmark].configured(protocol)
        sets = [
            checked_data(problem.dataset(seed, protocol.n_pool, protocol.n_test, protocol.n_initial), protocol)
            for seed in group.seeds
        ]
        self.data: Data = jax.tree.map(lambda *arrays: jnp.stack(arrays), *sets)
        self.scaled_x = [in_standard_deviations(x) for x in self.data.x]
        self.subset = subset_of(protocol.n_pool)
        self.subset_x = np.asarray(self.data.x)[:, subset_of(protocol.n_pool, SATURATION_SUBSET)]
        self.compiled = False
        self.roots = jnp.stack([jax.random.key(seed) for seed in group.seeds])

    def advance(self, progress: Progress) -> None:
        """One round more: train all, and unless it was the last, label k points more in each run."""
        group, protocol = self.group, self.group.protocol
        index = len(progress.metrics)
        n = protocol.n_initial + index * protocol.n_query
        rows, count = jnp.asarray(progress.rows), jnp.asarray(n)
        arguments = (self._keys(TRAINING, index), self.data, rows, count, protocol)
        keys = self._keys(SELECTION, index)
        started = time.perf_counter()
        with self._compiling_proposals(arguments, keys):
            ensembles, nll = train(*arguments)
            if index == 0:  # all arms of a seed start from the same model, to the last bit
                first = partial(jax.tree.map, lambda leaf: jnp.broadcast_to(leaf[:, :1], leaf.shape))
                ensembles, nll = first(ensembles), first(nll)
            nll = np.asarray(nll)
        seconds, trained = [time.perf_counter() - started], np.isfinite(nll).all(-1)
        proposals, saturated = [], []
        for a in range(len(group.arms) if index < protocol.n_rounds else 0):
            started = time.perf_counter()
            proposals.append(self._propose(a, keys, ensembles, rows, count, trained[:, a]))
            seconds.append(time.perf_counter() - started)
            saturated.append(np.asarray(_saturation(on_one_device(_arm(ensembles, a)), self.subset_x)))
        self._record(progress, index, n, nll, proposals, saturated, seconds)

    def _keys(self, stream: int, index: int) -> Array:
        return jax.vmap(lambda root: round_key(root, stream, index))(self.roots)

    def _propose(
        self, a: int, keys: Array, ensembles: Ensemble, rows: Array, n: Array, trained: np.ndarray
    ) -> Proposals:
        arm, protocol = self.group.arms[a], self.group.protocol
        options = protocol.replace(**dict(arm.options))
        strategy = strategies.get(arm.strategy)
        runs = (keys, _arm(ensembles, a), self.data.x, rows[:, a], n)
        return jax.tree.map(np.asarray, propose(strategy, *runs, protocol.n_query, options, trained))

    @contextlib.contextmanager
    def _compiling_proposals(self, arguments: tuple[Any, ...], keys: Array) -> Iterator[None]:
        """The first time, beside the first training: our strategies' programs, in threads, on made-up networks."""
        picks_follow = arguments[3] < self.group.protocol.n_final
        if self.compiled or not picks_follow or jax.device_count() > 1:
            yield
            return
        self.compiled = True
        _, _, rows, n, protocol = arguments
        structures: list[Any] = []

        def leaves(*arrays: Any) -> list[Array]:
            trained, structure = jax.tree.flatten(train(*arrays, protocol)[0])
            structures.append(structure)
            return trained

        shapes = jax.eval_shape(leaves, *arguments[:-1])
        ensembles = jax.tree.unflatten(structures[0], [jnp.ones(leaf.shape, leaf.dtype) for leaf in shapes])
        whole = np.ones(len(keys), bool)
        with ThreadPoolExecutor(len(self.group.arms)) as threads:
            made = [
                threads.submit(self._propose, a, keys, ensembles, rows, n, whole)
                for a, arm in enumerate(self.group.arms)
                if isinstance(strategy := strategies.get(arm.strategy), Scored) or strategy in _OURS
            ]
            yield
            for proposals in made:
                proposals.result()

    def _record(
        self,
        progress: Progress,
        index: int,
        n: int,
        nll: np.ndarray,
        proposals: list[Proposals],
        saturated: list[np.ndarray],
        seconds: list[float],
    ) -> None:
        group, protocol = self.group, self.group.protocol
        n_seeds, n_arms = nll.shape[:2]
        metrics = np.full((n_seeds, n_arms, len(COLUMNS)), np.nan)
        scores = np.full((n_arms, len(self.subset)), np.nan, np.float16)
        for s, seed in enumerate(group.seeds):
            for a, arm in enumerate(group.arms):
                where = f"{group.benchmark} {arm} seed {seed}, round {index}"
                finite = np.isfinite(nll[s, a]).all()
                if not finite or (proposals and not proposals[a].sound[s]):
                    what = "scores are not finite" if finite else "training has diverged, the test NLL is not finite"
                    then = "; its next labels are drawn at random" if proposals else ""
                    warnings.warn(f"{where}: {what}{then}", stacklevel=3)
                record = training_record(index, n, nll[s, a])
                record["train_seconds"] = seconds[0] / (n_seeds * n_arms)
                if proposals:
                    proposal = proposals[a]
                    available = np.ones(protocol.n_pool, bool)
                    available[progress.rows[s, a, :n]] = False
                    picked = checked_picks(proposal.indices[s], available, protocol.n_query, where)
                    progress.rows[s, a, n : n + protocol.n_query] = picked
                    record["score_seconds"] = seconds[1 + a] / n_seeds
                    of_seed = None if proposal.scores is None else proposal.scores[s]
                    record |= selection_record(of_seed, saturated[a][s], self.scaled_x[s], picked, available)
                    if s == 0 and of_seed is not None:
                        scores[a] = clipped(of_seed[self.subset])
                metrics[s, a] = [record.get(name, np.nan) for name in COLUMNS]
        progress.metrics.append(metrics)
        progress.seconds.append(seconds)
        if index < protocol.n_rounds:
            progress.scores.append(scores)
        else:
            progress.test_nll = nll
