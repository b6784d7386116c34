"""Side by side: every command is run once, on cores of its own, and a failure stops no other."""

import os
import sys

import pytest

from milb.side_by_side import side_by_side


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


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs_are_refused(jobs):
    with pytest.raises(ValueError, match=f"jobs must be at least 1, got {jobs}"):
        side_by_side([], jobs)
