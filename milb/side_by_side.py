"""Commands side by side, each on its share of the cores: one training seldom keeps two cores busy, two trainings do."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

# Before the command begins: its cores, and that it ends with the process that began it, whatever ends that one.
_PIN = """
import ctypes, os, signal, sys
os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() != int(sys.argv[2]):  # it has ended already
    sys.exit(128 + signal.SIGTERM)
os.execvp(sys.argv[3], sys.argv[3:])
"""
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
GRACE = ((3, signal.SIGINT), (10, signal.SIGTERM))  # seconds to end by itself, and what comes then


def side_by_side(commands: Sequence[Sequence[str]], jobs: int) -> list[int]:
    """Run commands, `jobs` at a time, and wait for all of them, whatever becomes of one.

    After a Ctrl-C none begins, and those that run are ended if they do not end by themselves.

    Where the system knows which cores a process may use (Linux), this process's are dealt out among the jobs, so that
    `milb.use_cpu_cores()` makes as many devices as the command has cores. On a GPU each job may take its share of
    the memory, unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise. On Linux the commands end with this process.

    Args:
        commands: programs with their arguments.
        jobs: how many at a time; no more than there are commands, or cores, are run.

    Returns:
        Their exit statuses, in order.

    Raises:
        ValueError: jobs is below 1.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    jobs = max(1, min(jobs, len(commands), len(cores) or os.cpu_count() or 1))
    environment = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / jobs:.2f}"} | dict(os.environ)
    free: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    for job in range(jobs):
        free.put(cores[job * len(cores) // jobs : (job + 1) * len(cores) // jobs])

    interrupted, beginning = threading.Event(), threading.Lock()
    running: list[subprocess.Popen[bytes]] = []

    def run(command: Sequence[str]) -> int:
        share = free.get()
        pin = [sys.executable, "-c", _PIN, ",".join(map(str, share)), str(os.getpid())] if share else []
        try:
            with beginning:
                if interrupted.is_set():
                    return -signal.SIGINT
                process = subprocess.Popen([*pin, *command], env=environment)
                running.append(process)
            status = process.wait()
            if status in _INTERRUPTED:  # seen here before the main thread hears of it
                interrupted.set()
            return status
        finally:
            free.put(share)

    with ThreadPoolExecutor(jobs) as threads:
        try:
            return list(threads.map(run, commands))
        except BaseException:  # a terminal's Ctrl-C reaches the commands, too; a signal to this process alone does not
            with beginning:
                interrupted.set()
            for seconds, number in GRACE:
                _end(running, seconds, number)
            raise


def _end(processes: Sequence[subprocess.Popen[bytes]], seconds: float, number: signal.Signals) -> None:
    """Give processes so long to end, all together, and then a signal to those that have not."""
    until = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0, until - time.monotonic()))
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)
