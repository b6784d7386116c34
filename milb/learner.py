"""The active-learning loop: train, evaluate, score the pool, pick, label, again."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int
from tqdm.auto import tqdm

from milb import strategy as strategies
from milb.checks import Data, check_columns, check_trained, checked_data, checked_picks, checked_seed
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
from milb.mdn import VARIANCE_FLOOR, Ensemble
from milb.mixture import PRNGKey
from milb.paths import resolved
from milb.protocol import Protocol
from milb.run_state import RunState
from milb.store import locked
from milb.strategy import Pool, Strategy
from milb.training import fit_buffer, negative_log_likelihood


@dataclass(frozen=True)
class Run:
    """An active-learning run and what it was made with.

    Attributes:
        problem, strategy, seed, training_seed, protocol: what `run` was called with, names where there are any.
        history: one row for every model trained, the last after the last labels came in. Columns: round; n, labels
            it was trained on; nll_mean, nll_median, nll_q10, nll_q90, of the negative log-likelihood over test points
            (nats, raw units); score_min, score_median, score_max over rows not labelled yet; score_picked, the lowest;
            saturated_share, of points whose MI-LB is within 0.01 nat of its maximum, and certificate_mean, _q10,
            _median, _q90, of `milb.bounds.mi_certificate` (nats), both over 500 evenly spaced pool points at
            most, labelled ones included; batch_distance, the smallest between two points picked together, inputs in
            standard deviations of the pool; train_seconds, score_seconds (the first round's include compilation; its
            model is trained once for strategies of a seed that follow each other). NaN where a strategy has no
            such number.
        picks: (n_rounds, n_query), dataset indices in the order they were picked.
        ensemble: the last model.
        test_nll: (n_test,), its negative log-likelihood at each test point.
    """

    problem: str
    strategy: str
    seed: int
    training_seed: int
    protocol: Protocol
    history: pd.DataFrame
    picks: Int[np.ndarray, "rounds k"]
    ensemble: Ensemble
    test_nll: Float[np.ndarray, "n_test"]


def run(
    problem: Any,
    strategy: str | Strategy,
    seed: int,
    protocol: Protocol,
    progress: bool = True,
    training_seed: int | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Run:
    """Run active learning on a problem and record how the test error falls.

    Every round trains an ensemble from scratch on the labels so far, evaluates it on the test set, and lets the
    strategy pick `protocol.n_query` of the points not labelled yet. A model is trained after the last labels too.

    Args:
        problem: of `milb.problems.PROBLEMS`, or anything with `name` and `dataset(seed, n_pool, n_test, n_initial)`.
        strategy: a name in `milb.strategy.STRATEGIES`, or a function with a strategy's signature.
        seed: of the dataset.
        protocol: sizes and settings, e.g. `problem.protocol("demo")`.
        progress: show a progress bar, which leaves nothing behind.
        training_seed: of network training and selection; None takes `seed`. A round's training depends on it and on
            the round only, so all strategies of a seed start from the same model.
        store: a file to keep the run in. It is rewritten after every round; the same call goes on after the last
            round in it, whatever ended the process, and comes to the same history. A finished run is only read.

    Returns:
        The Run, with its history as a table.

    Raises:
        ValueError: unknown strategy, a seed out of range, a dataset whose parts do not fit or are not finite, a
            strategy that scores with NaN or picks anything but n_query different rows not labelled yet, or a store
            made with other settings (lists them).
        TypeError: the problem has no dataset, or the protocol is none.
        FloatingPointError: training has diverged.
        OSError: the store's folder does not exist or cannot be written, or another process works on the store.

    Warns:
        UserWarning: a column is constant over the labels, or varies by little in its unit, see `milb.training.fit`;
            the store was truncated or foreign and was set aside; or it was begun on other devices or with other
            versions, whose rounding differs.
    """
    if not hasattr(problem, "dataset"):
        raise TypeError(f"problem must be one of milb.problems.PROBLEMS' values or have a dataset, got {problem!r}")
    if not isinstance(protocol, Protocol):
        raise TypeError(f"protocol must be a Protocol such as problem.protocol('demo'), got {protocol!r}")
    chosen = strategies.get(strategy)
    problem = problem.configured(protocol) if hasattr(problem, "configured") else problem
    settings = {
        "problem": problem.name,
        "strategy": strategies.name_of(strategy),
        "seed": checked_seed("seed", seed),
        "training_seed": checked_seed("training_seed", seed if training_seed is None else training_seed),
        "protocol": dataclasses.asdict(protocol),
    }
    path = None if store is None else resolved(store, "store")
    state = RunState.new(protocol) if path is None else RunState.load(path, settings, protocol)
    if not state.finished(protocol):
        with contextlib.nullcontext() if path is None else locked(path):
            # Read again under the lock: whoever held it may have gone on.
            state = state if path is None else RunState.load(path, settings, protocol)
            _go_on(problem, chosen, settings, protocol, state, path, progress)
    return Run(
        **{**settings, "protocol": protocol},
        history=pd.DataFrame(state.records, columns=COLUMNS),
        picks=state.rows[protocol.n_initial :].reshape(protocol.n_rounds, protocol.n_query),
        ensemble=state.ensemble,
        test_nll=state.test_nll,
    )


def _go_on(
    problem: Any,
    strategy: Strategy,
    settings: dict[str, Any],
    protocol: Protocol,
    state: RunState,
    path: Path | None,
    progress: bool,
) -> None:
    """The rounds that are left, written to `path` one by one."""
    dataset = problem.dataset(settings["seed"], protocol.n_pool, protocol.n_test, protocol.n_initial)
    data = checked_data(dataset, protocol)
    scaled_x = in_standard_deviations(data.x)
    subset_x = np.asarray(data.x)[subset_of(protocol.n_pool, SATURATION_SUBSET)]
    root = jax.random.key(settings["training_seed"])
    title = f"{settings['problem']} {settings['strategy']} seed {settings['seed']}"
    rounds = range(len(state.records), protocol.n_rounds + 1)
    bar = tqdm(rounds, title, initial=rounds.start, total=protocol.n_rounds + 1, disable=not progress, leave=False)
    for round_index in bar:
        n = protocol.n_initial + round_index * protocol.n_query
        labelled = state.rows[:n]
        check_columns("x", np.asarray(data.x)[labelled])
        check_columns("y", np.asarray(data.y)[labelled], VARIANCE_FLOOR)
        started = time.perf_counter()
        if round_index == 0 and all(isinstance(array, np.ndarray) and not array.flags.writeable for array in dataset):
            trained = _first_round(_Frozen(dataset, data), settings["training_seed"], protocol)
        else:
            trained = _train_round(round_key(root, TRAINING, round_index), data, state.rows, n, protocol)
        ensemble, test_nll = jax.block_until_ready(trained)
        check_trained(ensemble, np.asarray(test_nll), f"{title}, round {round_index}")
        record = training_record(round_index, n, np.asarray(test_nll))
        record["train_seconds"] = time.perf_counter() - started
        if round_index < protocol.n_rounds:
            started = time.perf_counter()
            available = np.ones(protocol.n_pool, bool)
            available[labelled] = False
            pool = Pool(data.x, jnp.asarray(available), jnp.asarray(state.rows), jnp.asarray(n))
            selection_key = round_key(root, SELECTION, round_index)
            where = f"{title}, round {round_index}"
            try:
                proposal = strategies.propose(strategy, selection_key, ensemble, pool, protocol.n_query, protocol)
                proposal = jax.block_until_ready(proposal)
            except Exception as error:
                error.add_note(where)
                raise
            picked = checked_picks(proposal.indices, available, protocol.n_query, where)
            record["score_seconds"] = time.perf_counter() - started
            saturated = saturation(on_one_device(ensemble), subset_x)
            record |= selection_record(proposal.scores, saturated, scaled_x, picked, available)
            state.rows[n : n + protocol.n_query] = picked
        else:
            state.ensemble, state.test_nll = ensemble, np.asarray(test_nll)
        state.records.append(record)
        if path is not None:
            state.save(path, settings)
        bar.set_postfix(n=n, nll=f"{record['nll_mean']:.4g}")


_test_nll = jax.jit(negative_log_likelihood)


def _train_round(key: PRNGKey, data: Data, rows: np.ndarray, n: int, protocol: Protocol) -> tuple[Ensemble, Array]:
    ensemble = jax.block_until_ready(fit_buffer(key, data.x[rows], data.y[rows], jnp.asarray(n), protocol))
    return ensemble, _test_nll(ensemble, data.test_x, data.test_y)


class _Frozen:
    """A dataset of arrays that nobody can write, as a key equal to itself and nothing else, with its checked data."""

    def __init__(self, dataset: tuple[np.ndarray, ...], data: Data) -> None:
        self.arrays, self.data = tuple(dataset), data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and all(a is b for a, b in zip(self.arrays, other.arrays, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.arrays)))


@lru_cache(maxsize=1)
def _first_round(dataset: _Frozen, training_seed: int, protocol: Protocol) -> tuple[Ensemble, Array]:
    """Round 0 of a seed, the same for every strategy: trained once for runs that follow each other."""
    key = round_key(jax.random.key(training_seed), TRAINING, 0)
    return _train_round(key, dataset.data, RunState.new(protocol).rows, protocol.n_initial, protocol)
