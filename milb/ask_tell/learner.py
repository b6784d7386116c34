"""Ask and tell: a learner that serves a furnace, a simulator or a person with a CSV file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import ArrayLike, Int

from milb import strategy as strategies
from milb.ask_tell import columns, picks
from milb.ask_tell.model import Model, Scaling
from milb.ask_tell.prediction import Prediction
from milb.ask_tell.report import Report, report, warn, warn_saturated
from milb.ask_tell.settings import checked, describe
from milb.ask_tell.state import State
from milb.checks import checked_picks, checked_seed
from milb.history import SELECTION, TRAINING, round_key
from milb.paths import expanded
from milb.protocol import Protocol
from milb.strategy import Strategy

DEFAULT_STRATEGY = "mi-lb-maxdist"


class Learner:
    """Active learning where you measure: `ask` for rows of your pool, measure them, `tell` what came out.

    Nothing is asked twice, whatever came out. What is asked depends on what has been told, on the strategy, protocol
    and seed, and not on the order or the parts in which it was told, nor on how often the learner was saved and loaded.

    With fewer labels than `protocol.n_initial`, 2 (dx + 1) unless told otherwise, rows are asked by a design:
    k-center-greedy on inputs of standard deviation 1, the first the farthest from the mean, then each the farthest
    from all that was told, failed or picked. From then on the strategy asks, with networks trained on all labels.
    Inputs and outputs are scaled in float64 before anything else, so units and offsets do not matter to any score.

    Memory: scores are computed in blocks of `protocol.block_size` rows, and a million rows of up to 12 inputs take less
    than 1 GB; strategies that look at features (`core-set`, `bait`, `…-maxdist`, `…-lcmd`) keep some copies of these.

    Args:
        pool_x: (N, dx), all candidates: an array or a frame, whose column names are kept. Numbers, no NaN.
        strategy: a name in `milb.strategy.STRATEGIES`, or a function with a strategy's signature. The default weighs
            MI-LB with distances, so that a batch is no set of near-copies; see notebook 08.
        protocol: a `milb.protocol.Protocol` to use as it is; None for settings chosen from the numbers of labels,
            inputs and outputs (`milb.ask_tell.settings.choose`); a dict of fields that shall be otherwise than chosen.
        seed: of training and selection.
        quiet: do not print the settings when they are chosen or change.

    Raises:
        ValueError: a text column, NaN or infinity in the pool, no rows; an unknown strategy or field of the protocol; a
            seed out of range. TypeError: a protocol that is none of these.

    Warns:
        UserWarning: a column is constant over the pool: it can tell nothing.
    """

    def __init__(
        self,
        pool_x: Any,
        strategy: str | Strategy = DEFAULT_STRATEGY,
        protocol: Protocol | Mapping[str, Any] | None = None,
        seed: int = 0,
        quiet: bool = False,
    ) -> None:
        pool = columns.checked_x("pool_x", pool_x)
        if not len(pool.values):
            raise ValueError("pool_x has no rows")
        name, seed = strategies.name_of(strategy), checked_seed("seed", seed)
        self._begin(State(pool, name, seed, checked(protocol, *pool.values.shape)), strategy, quiet)
        constant = [pool.called(i) for i in np.flatnonzero(self._inputs.constant)]
        if constant and len(pool.values) > 1:
            warnings.warn(f"pool_x is constant in {', '.join(constant)}: it can tell nothing", stacklevel=2)

    @classmethod
    def load(cls, path: str | os.PathLike[str], strategy: str | Strategy | None = None, quiet: bool = False) -> Learner:
        """The learner in a file: it goes on as the one that was saved would have.

        Args:
            path: as given to `save`.
            strategy: another one from now on; a function of your own has to be given again.
            quiet: as in `Learner`.

        Raises:
            ValueError: the file is damaged, foreign or of a newer milb, or the strategy's name is in no registry.
            OSError: the file cannot be read.
        """
        learner, state = cls.__new__(cls), State.load(expanded(path))
        if strategy is None and state.strategy not in strategies.STRATEGIES:
            raise ValueError(f"{path} was saved with the strategy {state.strategy!r}: give it again, strategy=…")
        strategy = state.strategy if strategy is None else strategy
        state.strategy = strategies.name_of(strategy)
        learner._begin(state, strategy, quiet)
        return learner

    def _begin(self, state: State, strategy: str | Strategy, quiet: bool) -> None:
        self._state, self._strategy, self._quiet = state, strategies.get(strategy), quiet
        self._inputs = Scaling.of(state.pool.values)
        self._x = self._inputs(state.pool.values)
        self._model: Model | None = None
        self._announced: Protocol | None = None  # the settings printed last

    def __repr__(self) -> str:
        counts = f"{self.n_labelled} labelled, {self.n_failed} failed, {len(self.pending)} pending, {self.n_left} left"
        return f"Learner({self._state.strategy!r}: {counts})"

    n_labelled = property(lambda self: self._state.n_labels, doc="Labels to train on, extras included.")
    n_failed = property(lambda self: len(self._state.rows(failed=True)), doc="Rows whose measurement failed.")
    n_left = property(lambda self: self._state.n_left, doc="Rows neither labelled nor failed; pending ones count.")
    seed = property(lambda self: self._state.seed, doc="Of training and selection.")
    protocol = property(lambda self: self._state.settings(), doc="Settings that a model is trained with now.")
    pool = property(lambda self: self._state.pool, doc="Inputs of all rows as float64, `values`, and their `names`.")
    output_names = property(lambda self: self._state.output_names, doc="Of the outputs; None while they have none.")
    strategy = property(lambda self: self._state.strategy, doc="Its name, as it is recorded.")
    pending = property(lambda self: np.array(self._state.pending, int), doc="Rows asked and not told yet, best first.")
    labels = property(lambda self: self._state.copied_labels(), doc="Outputs (D,) by row of the pool, NaN: failed.")
    curve = property(lambda self: self._state.curve_table(), doc="A frame of all that `report` found, by n (nats).")

    def ask(self, k: int, more: bool = False) -> Int[np.ndarray, "k"]:
        """Rows of the pool to measure next, the most wanted first.

        While rows of the last batch are not told, it is these that are returned, as many as they are and whatever k.

        Args:
            k: how many, 1 to the number of rows left, with `more` less those pending.
            more: ask k rows besides the pending ones, which go on; strategies that keep a distance keep it from them.

        Returns:
            (k,), distinct rows of the pool, none of them labelled or failed.

        Raises:
            ValueError: k out of range, nothing left, or a strategy of your own that picks what it must not.
            FloatingPointError: training has diverged.

        Warns:
            UserWarning: MI-LB is saturated, where the strategy uses it; an output is constant over the labels.
        """
        if self._state.pending and not more:
            return self.pending
        k = columns.checked_k(k, self.n_left - len(self.pending))
        asked = checked_picks(self._pick(k), picks.askable(self._state), k, "ask")
        self._state.pending += asked.tolist()
        return asked

    def tell(self, indices: Any, y: Any, replace: bool = False) -> None:
        """What was measured, in any order and in parts; of rows that were never asked, too.

        A row with NaN in y failed: it is recorded, not asked again and not trained on. It may be told again once it
        has succeeded. The same label told twice is one label. A call that is refused changes nothing.

        Args:
            indices: rows of the pool.
            y: (n, D), or (n,) for a single output, NaN or masked where measuring failed; a frame's names are kept.
            replace: take a label that differs from what was told before, e.g. to mend a slip.

        Raises:
            ValueError: not rows of the pool, another number of rows or outputs, infinity, text, other output names
                than before, a label that differs from what was told before, or a row given twice with different labels.
        """
        rows = columns.checked_rows(indices, len(self._x))
        y = np.atleast_2d(y) if np.ndim(indices) == 0 and not hasattr(y, "columns") else y
        table = columns.checked_y(y, len(rows), self._state.n_outputs or None)
        self._state.tell(rows.tolist(), table, replace)
        self._model = None

    def tell_extra(self, x: Any, y: Any) -> None:
        """Labels of points that are not in the pool, such as earlier experiments; kept besides, never asked.

        Args:
            x: (n, dx), a frame by column names if the pool has some.
            y: as `tell`; points with NaN are kept, and not trained on.

        Raises:
            ValueError: x does not have the pool's columns, is not finite or far off the pool; else as `tell`.
        """
        x = columns.checked_like("x", x, self._state.pool)
        table = columns.checked_y(y, len(x), self._state.n_outputs or None)
        self._state.tell_extra(x, table)
        self._model = None

    def withdraw(self) -> None:
        """Forget the pending batch, so that the next `ask` decides again.

        Nothing else having changed, it asks the same rows. One that cannot be measured is told as NaN.
        """
        self._state.pending = []

    def predict(self, x: Any) -> Prediction:
        """Densities of y at points of your choice, by networks trained on all labels.

        Args:
            x: (B, dx), a frame by column names if the pool has some; (dx,) is one point.

        Raises:
            ValueError: nothing is labelled, x does not have the pool's columns, is not finite or far off the pool.
            FloatingPointError: training has diverged.
        """
        x = columns.checked_like("x", x, self.pool)
        model = self._trained()
        shift, scale, _ = model.outputs
        return Prediction(model.forecast(self._inputs(x)), shift, scale, self.output_names)

    def report(self, n_folds: int = 5) -> Report:
        """How good the model is, from the labels alone; trains n_folds models more. Remembered for the stop hint.

        Raises:
            ValueError: nothing is labelled, or n_folds is not an integer from 2 on.
            FloatingPointError: training has diverged.

        Warns:
            UserWarning: on held-out folds the model is worse than a Gaussian mixture that looks at no input, or MI-LB
                is saturated on most rows that are left.
        """
        found = report(self._trained(), self._state, self._x, self._key(TRAINING), n_folds)
        warn(found, stacklevel=2)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keep everything in one file, replaced at once; OSError when it cannot be written, and the old one stays."""
        self._state.save(expanded(path))

    def _pick(self, k: int) -> Int[ArrayLike, "k"]:
        extra_x = self._inputs(self._state.extras()[0])
        if self.n_labelled < max(1, self.protocol.n_initial):
            return picks.by_design(self._state, self._x, extra_x, k)
        ensemble, key = self._trained().ensemble, self._key(SELECTION)
        rest = (self._state, self._x, extra_x, k, self.protocol)
        picked, saturated = picks.by_strategy(self._strategy, key, ensemble, *rest)
        warn_saturated(saturated, stacklevel=3)
        return picked

    def _trained(self) -> Model:
        if self._model is None:
            if not self.n_labelled:
                raise ValueError("nothing is labelled yet: ask, measure, tell")
            protocol = self.protocol
            if not (self._quiet or self._state.chosen_by_user or protocol == self._announced):
                print(describe(protocol, self.n_labelled, self._x.shape[1], self._state.n_outputs))
            self._announced = protocol
            x, y = self._state.training_set()
            self._model = Model.trained(self._key(TRAINING), self._inputs(x), y, protocol)
            self._model.warn_of_constants(self._state.output_names, stacklevel=4)
        return self._model

    def _key(self, stream: int) -> jax.Array:
        """The same for the same labels and failures, whatever the way to them."""
        return round_key(jax.random.key(self._state.seed), stream, self.n_labelled + self.n_failed)
