"""Files are never half-written; one that cannot be used is set aside, and two processes never work on one."""

import json
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from milb import store

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


@pytest.mark.slow
def test_a_reader_never_finds_half_a_file(path):
    """Killed while it does nothing but write."""
    code = f"""
import numpy as np, pathlib
from milb import store
for i in range(10_000):
    store.write(pathlib.Path({str(path)!r}), {{"i": i}}, {{"a": np.full(100_000, i)}})
"""
    for patience in (0.05, 0.2, 0.3):
        process = subprocess.Popen([sys.executable, "-c", code])
        while not path.exists() and process.poll() is None:
            time.sleep(0.05)
        time.sleep(patience)
        process.send_signal(signal.SIGKILL)
        process.wait()
        header, arrays = store.read(path)
        assert (arrays["a"] == header["i"]).all() and len(arrays["a"]) == 100_000


def test_files_set_aside_before_are_kept(path):
    for content in ("a", "b", "c"):
        path.write_text(content)
        with pytest.warns(UserWarning, match="set aside"):
            assert store.read(path) is None
    kept = {file.read_text() for file in path.parent.iterdir()}
    assert kept == {"a", "b", "c"}


def test_failed_write_keeps_the_old_file_and_no_temporary(path, monkeypatch):
    store.write(path, {"i": 1}, {})
    monkeypatch.setattr(store.np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space"):
        store.write(path, {"i": 2}, {})
    monkeypatch.undo()
    assert store.read(path)[0]["i"] == 1 and list(path.parent.iterdir()) == [path]


def test_newer_format_is_refused_and_kept(path):
    with path.open("wb") as file:
        np.savez(file, header=np.array(json.dumps({"format": "milb run", "version": 99})))
    before = path.read_bytes()
    with pytest.raises(ValueError, match="format version 99; this milb reads version 1"):
        store.read(path)
    assert path.read_bytes() == before


def test_file_that_cannot_be_read_now_is_left_alone(path, monkeypatch):
    path.write_text("precious")
    monkeypatch.setattr(store.Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError("too many open files")))
    with pytest.raises(OSError, match="too many open files"):
        store.read(path)
    assert path.read_text() == "precious"


def test_every_flipped_byte_is_set_aside_or_harmless(path):
    store.write(path, {"i": 1}, {"a": np.arange(50)})
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(content), 150):
        damaged = content.copy()
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stored = store.read(path)
        assert stored is None or "a" not in stored[1] or (stored[1]["a"] == np.arange(50)).all()
        for aside in path.parent.glob("*.unreadable*"):
            aside.unlink()


def test_two_processes_never_work_on_one_store(path):
    with store.locked(path):
        code = f"""
from pathlib import Path
from milb import store

try:
    with store.locked(Path({str(path)!r})):
        print("both")
except BlockingIOError as error:
    print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "another process is working on" in result.stdout
    with store.locked(path):
        pass


@pytest.mark.parametrize("name", ["run.npz", "run[1].npz", "run*.npz"])
def test_temporaries_of_other_files_are_left_alone(name, tmp_path):
    mine = tmp_path / f".{name}.77.tmp"
    others = [tmp_path / f".{other}.88.tmp" for other in ("run1.npz", "runs.npz", f"{name}.bak", f"{name}.1")]
    for file in (mine, *others):
        file.write_text("half a file")
    with store.locked(tmp_path / name):
        assert not mine.exists() and all(other.exists() for other in others)


def test_a_link_has_the_lock_of_what_it_leads_to(tmp_path):
    (tmp_path / "there").mkdir()
    path, link = tmp_path / "there" / "run.npz", tmp_path / "link.npz"
    path.touch()
    link.symlink_to(path)
    with store.locked(path), pytest.raises(BlockingIOError), store.locked(link):
        pass


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.parent.mkdir()
    target.write_bytes(b"before")
    link.symlink_to(target)
    with store.replacing(link) as file:
        file.write(b"after")
    assert link.is_symlink() and target.read_bytes() == b"after" and list(target.parent.iterdir()) == [target]
