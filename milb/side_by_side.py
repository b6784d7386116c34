"""Commands side by side, each on its share of the cores: one training seldom keeps two cores busy, two trainings do."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

_PIN = "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); os.execvp(sys.argv[2], sys.argv[2:])"


def side_by_side(commands: Sequence[Sequence[str]], jobs: int) -> list[int]:
    """Run commands, `jobs` at a time, and wait for all of them, whatever becomes of one.

    Where the system knows which cores a process may use (Linux), this process's are dealt out among the jobs, so that
    `milb.use_cpu_cores()` makes as many devices as the command has cores. On a GPU each job may take its share of
    the memory, unless XLA_PYTHON_CLIENT_MEM_FRACTION says otherwise.

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

    def run(command: Sequence[str]) -> int:
        share = free.get()
        pin = [sys.executable, "-c", _PIN, ",".join(map(str, share))] if share else []
        try:
            return subprocess.run([*pin, *command], env=environment).returncode
        finally:
            free.put(share)

    with ThreadPoolExecutor(jobs) as threads:
        try:
            return list(threads.map(run, commands))
        except BaseException:  # Ctrl-C reaches the commands that run by itself; the others shall not begin
            threads.shutdown(wait=False, cancel_futures=True)
            raise
