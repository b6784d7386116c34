"""Side by side: every command is run once, on cores of its own, and a failure stops no other."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from milb.side_by_side import _PIN, side_by_side


def python(code, *arguments):
    return [sys.executable, "-c", code, *map(str, arguments)]


TOUCH = """
import sys, time
path, seconds, status = sys.argv[1:]
time.sleep(float(seconds))
open(path, "x").close()
sys.exit(int(status))
"""
# Waits until the other is there, so that neither is given the other's cores afterwards.
MEET = """
import os, sys, time
own, other = sys.argv[1:]
with open(own, "w") as file:
    print(*os.sched_getaffinity(0), file=file)
    print(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"], file=file)
while not os.path.exists(other):
    time.sleep(0.01)
"""


def test_statuses_come_in_order_and_a_failure_stops_nothing(tmp_path):
    commands = [
        python(TOUCH, tmp_path / "a", 0.3, 3),
        python(TOUCH, tmp_path / "b", 0, 0),
        python(TOUCH, tmp_path, 0, 0),
    ]
    assert side_by_side(commands, 2) == [3, 0, 1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system does not say which cores")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core cannot be shared out")
def test_jobs_share_cores_and_memory(tmp_path):
    paths = tmp_path / "a", tmp_path / "b"
    assert side_by_side([python(MEET, *paths), python(MEET, *paths[::-1])], 2) == [0, 0]
    (mine, memory), (others, _) = (path.read_text().splitlines() for path in paths)
    assert {*mine.split()} | {*others.split()} == {str(core) for core in os.sched_getaffinity(0)}
    assert not {*mine.split()} & {*others.split()}
    assert float(memory) == 0.45


def test_a_setting_of_memory_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".3")
    check = python("import os, sys; sys.exit(os.environ['XLA_PYTHON_CLIENT_MEM_FRACTION'] != '.3')")
    assert side_by_side([check, check], 2) == [0, 0]


def test_nothing_begins_after_ctrl_c(tmp_path):
    interrupt = "signal.signal(signal.SIGINT, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGINT)"
    interrupted = python(f"import os, signal; {interrupt}")  # background jobs of a shell ignore it unless told so
    late = python(TOUCH, tmp_path / "late", 0, 0)
    assert side_by_side([interrupted, late, late], 1) == [-signal.SIGINT] * 3
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such signal")
def test_commands_end_with_the_process_that_began_them(tmp_path):
    """Otherwise two runs would write the same copies after a restart."""
    slow = python("import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(60)")
    parent = "import sys; from milb.side_by_side import side_by_side; side_by_side([sys.argv[1:]], 1)"
    process = subprocess.Popen(python(parent, *slow, tmp_path / "pid"))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        time.sleep(0.01)
    process.kill()
    process.wait()
    status, patience = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat"), time.monotonic() + 20
    while status.exists() and ") Z " not in status.read_text():
        assert time.monotonic() < patience, "the command went on"
        time.sleep(0.01)


SLOW = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'w'), flush=True); time.sleep(60)"
PARENT = """
import signal, sys
from milb import side_by_side
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it unless told so
side_by_side.GRACE = ((0.1, signal.SIGTERM),)
side_by_side.side_by_side([sys.argv[1:]], 1)
"""


def test_an_interrupt_of_this_process_alone_ends_the_commands(tmp_path):
    process = subprocess.Popen(python(PARENT, *python(SLOW, tmp_path / "pid")), stderr=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("\n"):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such signal")
def test_a_command_does_not_begin_without_the_process_that_began_it(tmp_path):
    cores, gone = ",".join(map(str, os.sched_getaffinity(0))), "0"
    command = python(TOUCH, tmp_path / "late", 0, 0)
    assert subprocess.run([sys.executable, "-c", _PIN, cores, gone, *command]).returncode == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs_are_refused(jobs):
    with pytest.raises(ValueError, match=f"jobs must be at least 1, got {jobs}"):
        side_by_side([], jobs)
