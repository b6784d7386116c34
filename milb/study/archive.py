"""All of a study's store in one tar file, for machines that hand back a few files only."""

from __future__ import annotations

import io
import os
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from milb import paths
from milb import store as files
from milb.study.progress import Damaged, files_in, peek


def located(archive: str | os.PathLike[str], store: Path) -> Path:
    """Where an archive is or will be.

    Raises:
        FileNotFoundError: its folder does not exist or cannot be written.
        ValueError: there is a file of this name that is no tar file: it is not overwritten; or it is one of those that
            the archive is made of.
    """
    archive = paths.resolved(archive, "archive")
    packed = {path.resolve() for path in store.glob("*.npz")}
    if archive in packed or (archive.parent == store and archive.suffix == ".npz"):
        raise ValueError(f"the archive {archive} would be packed into itself: give another file")
    if not (archive.parent.is_dir() and os.access(archive.parent, os.W_OK)):
        raise FileNotFoundError(f"the archive's folder {archive.parent} does not exist or cannot be written")
    if archive.exists():
        try:
            tarfile.open(archive, "r:").close()
        except tarfile.TarError as error:
            raise ValueError(f"the archive {archive} is no tar file ({error}) and is left as it is") from error
    return archive


def synchronise(store: Path, archive: Path) -> None:
    """Store and archive hold the same afterwards: of every group the file with more finished rounds.

    What cannot be used is set aside, never overwritten: the store's file, the archive's member, and an archive that
    is damaged, once what stands before the damage is in the store.

    Raises:
        BlockingIOError: another process works on a group that the archive has more rounds of.
        OSError: the store or the archive cannot be read or written.
        ValueError: a newer milb wrote a file of a group.

    Warns:
        UserWarning: something was set aside.
    """
    with files.locked(archive, wait=True):
        equal: dict[str, bool] = {}
        if archive.exists():
            damage: list[Exception] = []
            for name, content in _members(archive, damage):
                equal[name] = _unpack(content, store / name, archive)
            if damage:
                files.set_aside(archive, damage[0], "whole tar file", "what stands before the damage is in the store")
                equal.clear()
        if equal != {path.name: True for path in files_in(store)}:
            _write(store, archive)


def pack(store: Path, archive: Path) -> None:
    """Replace the archive by the store as it is now; OSError when it cannot be written."""
    with files.locked(archive, wait=True):  # by turns: the last of several processes finds what all have saved
        _write(store, archive)


def _write(store: Path, archive: Path) -> None:
    with files.replacing(archive) as file, tarfile.open(fileobj=file, mode="w") as tar:
        for path in files_in(store):
            content = path.read_bytes()  # at once, and of what a link leads to: another process may replace the file
            member = tarfile.TarInfo(path.name)
            member.size, member.mtime = len(content), path.stat().st_mtime
            tar.addfile(member, io.BytesIO(content))


def _members(archive: Path, damage: list[Exception]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the members up to the end, or up to the damage, which is added to the list."""
    try:
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                if member.isfile() and member.name.endswith(".npz"):
                    yield Path(member.name).name, tar.extractfile(member).read()
            tar.fileobj.seek(tar.offset)  # a damaged header looks like the end, but only zeros are one
            rest = tar.fileobj.read()
            if len(rest) < tarfile.BLOCKSIZE or any(rest):
                raise tarfile.ReadError(f"damaged at byte {tar.offset}")
    except (tarfile.TarError, ValueError) as error:
        damage.append(error)


def _unpack(content: bytes, target: Path, archive: Path) -> bool:
    """Write a member into the store if it has more rounds; whether the store holds what the archive does now."""
    stored = target.read_bytes() if target.exists() else None
    if stored == content:
        return True
    ours, theirs = _rounds(target, stored), _rounds(archive / target.name, content)
    n_ours, n_theirs = (-1 if rounds is None else len(rounds) for rounds in (ours, theirs))
    shared = min(n_ours, n_theirs)
    same = shared < 1 or np.array_equal(ours[:shared], theirs[:shared], equal_nan=True)
    parted = "" if same else "has other rounds than"
    if n_theirs > n_ours:
        with files.locked(target):
            if stored is not None and (parted or n_ours < 1):
                files.set_aside(target, parted or "damaged or foreign", then=f"replaced by that of {archive}")
            _put(target, content)
        return True
    if parted or n_theirs < 1:
        aside = files.spare_name(target)
        _put(aside, content)
        why = f"{parted} {target}" if parted else "is damaged or foreign"
        warnings.warn(f"{target.name} in {archive} {why}; set aside as {aside}", stacklevel=4)
    return False


def _put(path: Path, content: bytes) -> None:
    with files.replacing(path) as file:
        file.write(content)


def _rounds(path: Path, content: bytes | None) -> Float[np.ndarray, "rounds seeds arms"] | None:
    """Errors of a group's models, round by round; of no round in a whole file of something else, None in no such."""
    try:
        stored = None if content is None else peek(path, content)
    except Damaged:
        return None
    if stored is None:
        return None if content is None else np.zeros((0, 1, 1))
    return stored[1]["metrics"][..., stored[0]["columns"].index("nll_mean")]
