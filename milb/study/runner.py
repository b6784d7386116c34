"""Running a study: group by group, round by round on disk, going on wherever it was stopped."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from milb import paths
from milb import store as files
from milb.devices import by_backend, describe, versions
from milb.history import COLUMNS
from milb.study import cluster
from milb.study.archive import located, pack, synchronise
from milb.study.grid import Group
from milb.study.lockstep import Lockstep
from milb.study.progress import Progress, load, save
from milb.study.split import rounds_of_larger
from milb.study.tables import maker


class _Call(NamedTuple):
    """What a call of `run` does with every group, here or on a cluster.

    Attributes:
        store, archive, elsewhere, split: as there.
        deadline: of the clock, which all share.
        pace: by benchmark, seconds of the last round seen that was made on devices like these: of all its runs
            together, which an accelerator trains at once, or of each one on a CPU.
    """

    store: Path
    deadline: float | None
    archive: Path | None
    elsewhere: bool
    split: bool
    pace: dict[str, float]

    def took(self, group: Group, progress: Progress, made: list[dict[str, Any]]) -> None:
        """Keep the pace of a group's last round, if devices like these made it."""
        rounds = len(progress.metrics)
        if rounds and maker({"made": made}, rounds - 1)["devices"] == describe():
            self.pace[group.benchmark] = sum(progress.seconds[-1]) / by_backend(_n_runs(group), 1)

    def expected(self, group: Group) -> float:
        """Seconds that a group's next round is expected to take; 0 where nothing is known of it."""
        return self.pace.get(group.benchmark, 0) * by_backend(_n_runs(group), 1)


def run(
    groups: Iterable[Group],
    store: str | os.PathLike[str],
    time_limit: float | None = None,
    archive: str | os.PathLike[str] | None = None,
    elsewhere: bool = False,
    progress: bool = True,
    client: Any = None,
    split: bool = False,
) -> bool:
    """Run what is left of a study.

    Every group has a file in `store`, rewritten after every round: whatever ends the process, the same call goes on
    after the last round on disk, and finished groups are only read. Several processes may work on one store: a group
    that another one holds is left to it.

    Args:
        groups: of `milb.study.grid`.
        store: folder of results; made where it is not there.
        time_limit: seconds after which no round is begun that would not end in time; None for no limit. Judged by
            the group's last round on devices like these, or else by that of another group of its benchmark that
            this call has seen; with a client, which hands groups to others, by the group's own alone.
        archive: a tar file that is rewritten with all of the store after every round: for machines that hand back
            a few files only. Where it exists, the store takes from it first what has more rounds there.
        elsewhere: go on with groups begun on other devices or versions, and record that; otherwise refused.
        progress: show a bar, which leaves nothing behind.
        client: a `dask.distributed.Client`, whose workers then run the groups, one task each; the store must be in a
            folder that all of them see. Groups should be as many as workers or more: see `runs_per_group` of `grid`.
        split: a group without rounds begins with the rounds that a larger group in the store has made of the same
            runs, and the header says so: a few runs of a study go on by themselves, on a smaller machine say.

    Returns:
        Whether all groups are finished.

    Raises:
        ValueError: a group, or the larger one that it is split from, was begun on other devices or with other versions,
            and `elsewhere` is False; a time limit that is negative or no number; store or archive is empty, or a link
            to itself; the archive's name is that of a file that is no tar file, or of one that would be packed.
        OSError: the store or the archive cannot be written, or is not the one that a cluster's workers write.

    Warns:
        UserWarning: a group's file or the archive was truncated or foreign and set aside; a run's training diverged,
            its errors of that round are NaN, or its scores are not finite: its next labels are drawn at random.
    """
    if time_limit is not None and not time_limit >= 0:
        raise ValueError(f"time_limit must be a number of seconds, not negative, or None, got {time_limit}")
    groups, store = list(groups), paths.resolved(store, "store")
    if store.exists() and not store.is_dir():
        raise NotADirectoryError(f"the store must be a folder; {store} is a file")
    archive = None if archive is None else located(archive, store)
    store.mkdir(parents=True, exist_ok=True)
    if archive is not None:
        synchronise(store, archive)
    deadline = None if time_limit is None else time.time() + time_limit
    call = _Call(store, deadline, archive, elsewhere, split, {})
    rounds = sum(group.protocol.n_rounds + 1 for group in groups)
    runs = sum(map(_n_runs, groups))
    with tqdm(total=rounds, desc=f"study of {runs} runs", disable=not progress, leave=False) as bar:
        if client is not None:
            return _run_on_cluster(client, groups, call, bar)
        return all([_run_group(group, call, bar) for group in groups])


def _n_runs(group: Group) -> int:
    return len(group.arms) * len(group.seeds)


def _run_on_cluster(client: Any, groups: Sequence[Group], call: _Call, bar: tqdm) -> bool:
    store, archive = call.store, call.archive
    seen: dict[Group, tuple[int, int]] = {}  # when a group's file was written, and the rounds in it

    def rounds_done(group: Group) -> int:
        path = store / f"{group.name}.npz"
        written = path.stat().st_mtime_ns if path.exists() else 0
        if seen.get(group, (None,))[0] != written:
            seen[group] = written, len(load(path, group)[0].metrics)
        return seen[group][1]

    rounds = 0  # not the bar's count, which stays 0 where it is not shown

    def look() -> int:
        nonlocal rounds
        more, rounds = -rounds, sum(map(rounds_done, groups))
        more += rounds
        bar.update(more)
        if archive is not None and more:
            pack(store, archive)
        return rounds

    finished = cluster.run_on(client, partial(_work, call=call), groups, look)
    look()
    for group in groups:
        if finished[group] and rounds_done(group) <= group.protocol.n_rounds:
            raise FileNotFoundError(f"a worker has finished {group.name}, but not in {store}: workers must share it")
    return all(finished.values())


def _work(group: Group, call: _Call) -> bool:
    """What a worker of a cluster does."""
    time_limit = None if call.deadline is None else max(0.0, call.deadline - time.time())
    return run([group], call.store, time_limit, elsewhere=call.elsewhere, progress=False, split=call.split)


def _run_group(group: Group, call: _Call, bar: tqdm) -> bool:
    path = call.store / f"{group.name}.npz"
    progress, made = load(path, group)
    if progress.finished(group):
        call.took(group, progress, made)
        bar.update(len(progress.metrics))
        return True
    try:
        with files.locked(path):
            progress, made = load(path, group)  # whoever held the lock may have gone on
            own, found = len(progress.metrics), ""
            if call.split:
                progress, made, found = _split(call.store, group, progress, made)
            if not progress.finished(group):
                made = _made_here(path, made, len(progress.metrics), call.elsewhere)
            if found:
                _say(bar, f"{group.name}, round {len(progress.metrics)}: {found}")
            if len(progress.metrics) > own:
                _keep(call, path, group, progress, made)
            bar.update(len(progress.metrics))
            bar.refresh()  # a first round may take minutes
            lockstep = None
            while not progress.finished(group):
                call.took(group, progress, made)
                expected = 1.1 * call.expected(group)
                left = np.inf if call.deadline is None else call.deadline - time.time()
                if expected > left:
                    why = f"its next round takes about {expected:.0f} s; {max(left, 0):.0f} are left"
                    _say(bar, f"{group.name}: {why if expected else 'no time is left'}")
                    return False
                lockstep = Lockstep(group) if lockstep is None else lockstep
                lockstep.advance(progress)
                _keep(call, path, group, progress, made)
                nll = progress.metrics[-1][..., COLUMNS.index("nll_mean")]
                best = np.min(nll, initial=np.inf, where=np.isfinite(nll))
                bar.update()
                bar.set_postfix_str(f"{group.benchmark} n={int(progress.metrics[-1][0, 0, 1])} best nll={best:.4g}")
    except BlockingIOError:
        _say(bar, f"{group.name}: another process is working on it")
        return False
    return True


def _split(
    store: Path, group: Group, progress: Progress, made: list[dict[str, Any]]
) -> tuple[Progress, list[dict[str, Any]], str]:
    """What a larger group has made of a group without rounds, and what made it; and what there is to say of that."""
    larger, made_larger = rounds_of_larger(store, group)
    own, theirs = len(progress.metrics), len(larger.metrics)
    if not own:
        found = f"goes on from {made_larger[-1]['group']}" if theirs else "no larger group has rounds of it"
        return larger, made_larger, found
    further = f"goes its own way; {theirs} rounds of {made_larger[-1]['group']} are not taken" if theirs > own else ""
    return progress, made, further


def _say(bar: tqdm, line: str) -> None:
    if not bar.disable:
        bar.write(line)


def _keep(call: _Call, path: Path, group: Group, progress: Progress, made: list[dict[str, Any]]) -> None:
    save(path, group, progress, made)
    if call.archive is not None:
        pack(call.store, call.archive)


def _made_here(path: Path, made: list[dict[str, Any]], n_rounds: int, elsewhere: bool) -> list[dict[str, Any]]:
    """What made the n_rounds rounds of a group so far, and this process where that is something else."""
    today = datetime.date.today().isoformat()
    here = {"devices": describe(), "versions": versions(), "date": today, "first_round": n_rounds}
    if not made:
        return [here]
    different = files.differences(*({key: m[key] for key in ("devices", "versions")} for m in (made[-1], here)))
    if not different and "group" not in made[-1]:
        return made
    if different and not elsewhere:
        begun = path.with_stem(made[-1].get("group", path.stem))
        raise ValueError(
            f"{begun} was begun elsewhere or on another number of cores, where rounding differs; elsewhere=True "
            "(--elsewhere) goes on and records it:\n  " + "\n  ".join(different)
        )
    return [*made, here]
