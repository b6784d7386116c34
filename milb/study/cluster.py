"""Groups as tasks of a dask cluster. The store, which all workers share, keeps what a lost worker had done."""

from __future__ import annotations

import re
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from milb.study.grid import Group

POLL = 2.0  # seconds between two looks at the store


def run_on(
    client: Any, call: Callable[[Group], bool], groups: Iterable[Group], look: Callable[[], int]
) -> dict[Group, bool]:
    """`call(group)` of every group, on the workers.

    Where a worker is lost, dask gives its group to another one, which goes on after the last round in the store; a
    group whose workers dask gives up on is handed out again for as long as its rounds get more.

    Args:
        client: a `dask.distributed.Client`.
        call: runs a group; whether it is finished now.
        look: called every now and then; how many rounds the store holds.

    Raises:
        OSError: workers are lost again and again, before they have a round more.
        Exception: whatever a group raised; groups that no worker has begun are called off then.
    """
    from distributed import KilledWorker, wait

    def hand_out(group: Group) -> Any:
        # A key of this attempt's own: of another call, on another store say, dask would hand out the result.
        return client.submit(call, group, pure=False, key=f"{group.name}-{uuid.uuid4().hex}")

    rounds = look()
    running = {hand_out(group): (group, rounds) for group in groups}
    results: dict[Group, bool] = {}
    try:
        while running:
            finished = _any_finished(wait, list(running))
            rounds = look()
            for future in finished:
                group, before = running.pop(future)
                try:
                    results[group] = future.result()
                except KilledWorker as error:
                    if rounds <= before:
                        raise OSError(f"{group.name}: workers are lost again and again, for want of memory?") from error
                    warnings.warn(f"{group.name}: its workers were lost; another one goes on with it", stacklevel=2)
                    running[hand_out(group)] = (group, rounds)
    finally:
        client.cancel(list(running))
    return results


def _any_finished(wait: Callable[..., Any], futures: list[Any]) -> list[Any]:
    try:
        return list(wait(futures, timeout=POLL, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []


def connect(scheduler: str) -> Any:
    """A client of the scheduler at this address.

    Raises:
        ModuleNotFoundError: dask.distributed is not installed; says how it is.
        OSError: nobody answers there.
        ValueError: it is no address.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a cluster needs dask.distributed: pip install 'milb[cluster]' ({error})") from None
    if not re.fullmatch(r"[a-z]+://.+:\d+", scheduler):
        raise ValueError(f"{scheduler!r} is no address of a dask scheduler, such as tcp://10.0.0.1:8786")
    return Client(scheduler, timeout=20)
