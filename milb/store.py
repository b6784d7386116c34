"""Files rewritten whole, never left half-written: locks, reading, writing, setting aside what cannot be read."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: no locks
    fcntl = None

FORMAT, VERSION = "milb run", 1


@contextlib.contextmanager
def locked(path: Path, wait: bool = False) -> Iterator[None]:
    """Nobody else holds this path's lock meanwhile; it goes with the process, however that ends.

    Where the path is a link, that of what it leads to, which is what is written.

    Raises:
        BlockingIOError: another process does; not with `wait`, which waits until none does.
        FileNotFoundError, PermissionError: the folder does not exist or takes no files: known now, not after a round.
    """
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(f"store's folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"store's folder {path.parent} cannot be written")
    with (path.parent / f".{path.name}.lock").open("w") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise BlockingIOError(f"another process is working on {path}") from error
        for leftover in os.listdir(path.parent):  # of a process that was killed while it wrote this very file
            if re.fullmatch(re.escape(f".{path.name}.") + r"\d+\.tmp", leftover):
                (path.parent / leftover).unlink(missing_ok=True)
        yield


def write(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    compress: bool = False,
    kind: tuple[str, int] = (FORMAT, VERSION),
) -> None:
    """Replace the file at once: whoever reads it, or is killed, finds the old or the new one, whole.

    Args:
        kind: of file, and its version: what `unpacked` looks for.

    Raises:
        OSError: the folder cannot be written.
    """
    header = {"format": kind[0], "version": kind[1], **header}
    with replacing(path) as file:
        (np.savez_compressed if compress else np.savez)(file, header=np.array(json.dumps(header)), **arrays)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path`, or what a link there leads to, once it is whole and on disk; OSError as `write`."""
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays; None when there is no file, or none that can be used.

    A truncated or foreign file is set aside, under its name with `.unreadable` behind it, never deleted.

    Raises:
        OSError: the file is there and may be good, but cannot be read now.
        ValueError: it was written by a newer milb.

    Warns:
        UserWarning: a file was set aside; says which, why and where to.
    """
    if not path.exists():
        return None
    content = path.read_bytes()
    try:
        header, arrays = unpacked(content, FORMAT)
    except Exception as error:  # a damaged zip file raises whatever its parts raise
        set_aside(path, error)
        return None
    if header["version"] != VERSION:
        raise wrong_version(path, header, VERSION)
    return header, arrays


def unpacked(content: bytes, form: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of what `write` wrote; an exception of some kind when it is damaged or of another format."""
    if not content.startswith(
        (b"PK\x03\x04", b"PK\x05\x06")
    ):  # NumPy would take it for a pickle, and advise to trust it
        raise ValueError("it is no .npz file")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(str(arrays.pop("header")))
    if header["format"] != form:
        raise ValueError(f"it holds {header['format']!r}")
    header["version"] = int(header["version"])
    return header, arrays


def wrong_version(path: Path, header: Mapping[str, Any], version: int) -> ValueError:
    """The error for a file whose format is newer, or older, than the one that is read here."""
    return ValueError(f"{path} has format version {header['version']}; this milb reads version {version}")


def spare_name(path: Path) -> Path:
    """A name that is free still, for what stood at this path, or would have, and cannot be used."""
    names = (path.with_name(f"{path.name}.unreadable{f'-{i}' if i else ''}") for i in range(1_000_000))
    return next(name for name in names if not name.exists())


def set_aside(path: Path, why: object, what: str = f"file of a {FORMAT}", then: str = "starting over") -> None:
    """Rename a file that cannot be used, so that nothing overwrites it; warns with both names and the reason."""
    os.replace(path, aside := spare_name(path))
    warnings.warn(f"{path} is no {what} ({why}); set aside as {aside.name}, {then}", stacklevel=3)


def differences(stored: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = "") -> list[str]:
    """One line for each setting that is not alike, such as "protocol.width: stored 64, asked 128"."""
    lines = []
    for name in sorted({*stored, *asked}):
        ours, theirs = stored.get(name, "nothing"), asked.get(name, "nothing")
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            lines += differences(ours, theirs, f"{prefix}{name}.")
        elif ours != theirs:
            lines.append(f"{prefix}{name}: stored {ours!r}, asked {theirs!r}")
    return lines
