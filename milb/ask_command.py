"""`python -m milb ask`: from a pool and labels in CSV files to the rows to measure next."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd

from milb.ask_tell import DEFAULT_STRATEGY, Learner
from milb.paths import expanded
from milb.store import locked
from milb.strategy import STRATEGIES
from milb.tables import PoolTable, read_labels, read_pool, write_rows

DESCRIPTION = """
Pick the rows of a pool to measure next. pool.csv has a column of ids and inputs in all other columns; labels.csv has
the same ids and the outputs measured so far (a header alone is fine; leave outputs empty where measuring failed). The
output file gets the pool's header and k of its rows, the most wanted first. Measure them, add them to labels.csv with
their outputs, and call again.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("pool", type=Path, metavar="pool.csv", help="all candidates: ids and inputs")
    parser.add_argument("labels", type=Path, metavar="labels.csv", help="ids and outputs measured so far")
    parser.add_argument("--outputs", nargs="+", required=True, metavar="NAME", help="columns of labels.csv to learn")
    number = "how many rows to measure next; with --state, rows asked before and not measured come instead"
    parser.add_argument("--k", type=int, required=True, help=number)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="next.csv", help="file to write them to")
    parser.add_argument("--strategy", choices=STRATEGIES, metavar="NAME", help=f"default {DEFAULT_STRATEGY}")
    parser.add_argument("--id", default="id", metavar="NAME", help="column of ids; default id")
    parser.add_argument("--state", type=Path, metavar="FILE", help="keep the batch asked last and the curve in here")
    parser.add_argument("--seed", type=int, help="of training and selection; default 0")
    parser.add_argument("--no-report", action="store_true", help="do not examine the model, which trains five more")


def ask(options: argparse.Namespace) -> int:
    """The command; 0, or ValueError, TypeError, OSError or FloatingPointError before anything is written.

    A report that fails is a warning: the batch stands.

    Only the last labels are written to the state file first when nothing is left to ask, which is an error, too.
    With a state file the batch is on disk there before it is in the output file: whenever the command is killed, the
    same call gives the same batch. Of two calls with one state file at a time, the second is an error.
    """
    for name in ("pool", "labels", "output", "state"):
        if getattr(options, name) is not None:
            setattr(options, name, expanded(getattr(options, name)))
    _check_files(options)
    with nullcontext() if options.state is None else locked(_target(options.state)):
        return _ask(options)


def _ask(options: argparse.Namespace) -> int:
    pool = read_pool(options.pool, options.id, options.outputs)
    rows, y = read_labels(options.labels, pool, options.outputs)
    with _warnings_in_a_line():
        learner = _learner(options, pool)
        _check_nothing_lost(options, learner, pool, set(rows.tolist()))
        if len(rows):
            learner.tell(rows, pd.DataFrame(y, columns=options.outputs), replace=True)
        if not learner.n_left:
            _save(options, learner)  # the last labels: asking is an error now
        asked_before = len(learner.pending)
        batch = learner.ask(options.k)
        _save(options, learner)
        write_rows(pool, batch.tolist(), options.output)
        print(f"{learner.n_labelled} labels, {learner.n_failed} failed, {learner.n_left} rows left")
        again = f", asked before and not in {options.labels} yet (--k is for the next ones)" if asked_before else ""
        print(f"{options.output}: {len(batch)} rows{again}", flush=True)
        if learner.n_labelled > 1 and not options.no_report:
            try:
                print("\n".join(str(learner.report()).splitlines()[1:]))
                _save(options, learner)
            except (FloatingPointError, OSError) as error:
                print(f"warning: no report: {error}", flush=True)
    return 0


def _save(options: argparse.Namespace, learner: Learner) -> None:
    if options.state is not None:
        learner.save(options.state)


def _target(path: Path) -> Path:
    """Where a link leads to, which is what is written; the path itself, made absolute, if it is none."""
    return Path(os.path.realpath(path))


def _check_files(options: argparse.Namespace) -> None:
    """What would be found out too late, or destroy something."""
    written = [("-o", options.output), *([("--state", options.state)] if options.state is not None else [])]
    taken = {_target(options.pool): "the pool", _target(options.labels): "the labels"}
    for argument, path in written:
        target = _target(path)
        if target in taken:
            raise ValueError(f"{argument} {path} is the file of {taken[target]}: give another one")
        taken[target], folder = "-o", target.parent
        if path.is_dir():
            raise ValueError(f"{argument} {path} is a folder: give a file")
        if target.is_symlink() or (path.exists() and not path.is_file()):
            raise ValueError(f"{argument} {path} is a pipe, a device or a link to itself: give a file")
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ValueError(f"{argument} {path}: the folder {folder} does not exist or cannot be written")
    if not options.id or not all(options.outputs):
        raise ValueError("--id and --outputs must be names of columns, got an empty one")
    repeated = [name for name in options.outputs if options.outputs.count(name) > 1 or name == options.id]
    if repeated:
        raise ValueError(f"--outputs must be different columns, and none of ids: got {repeated[0]!r}")


def _learner(options: argparse.Namespace, pool: PoolTable) -> Learner:
    if options.state is None or not options.state.exists():
        frame = pd.DataFrame(pool.x, columns=list(pool.names))
        return Learner(frame, options.strategy or DEFAULT_STRATEGY, seed=options.seed or 0)
    learner = Learner.load(options.state, options.strategy)
    if learner.pool.names != pool.names or not np.array_equal(learner.pool.values, pool.x):
        raise ValueError(f"{options.pool} is not the pool that {options.state} was begun with: give another --state")
    if options.seed not in (None, learner.seed):
        raise ValueError(f"--seed {options.seed}: {options.state} was begun with seed {learner.seed}")
    if learner.output_names not in (None, tuple(options.outputs)):
        raise ValueError(
            f"--outputs {' '.join(options.outputs)}: {options.state} was begun with {' '.join(learner.output_names)}, "
            "in this order: give these, or another --state"
        )
    return learner


def _check_nothing_lost(options: argparse.Namespace, learner: Learner, pool: PoolTable, told: set[int]) -> None:
    lost = set(learner.labels) - told
    if lost:
        names = list(pool.rows)
        raise ValueError(
            f"{options.labels} lacks id {names[min(lost)]!r}, which {options.state} has a label of: put it back, with "
            "empty outputs if measuring failed, or begin another --state"
        )


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        print(f"warning: {message}", flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
