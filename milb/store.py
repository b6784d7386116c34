"""How far a run has come, kept in one file: rewritten whole after every round, never left half-written."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from milb.devices import describe, versions
from milb.mdn import Ensemble, Standardisation, initialise
from milb.protocol import Protocol
from milb.training import network_of

try:
    import fcntl
except ImportError:  # Windows: no locks
    fcntl = None

FORMAT, VERSION = "milb run", 1


@dataclass
class RunState:
    """How far a run has come: all that is needed to go on, and, once finished, all that it returns."""

    rows: np.ndarray  # (n_final,), dataset rows labelled so far, in order; 0 behind them
    records: list[dict[str, float]]
    ensemble: Ensemble | None = None
    test_nll: np.ndarray | None = None

    @classmethod
    def new(cls, protocol: Protocol) -> RunState:
        """Nothing but the initial labels."""
        rows = np.zeros(protocol.n_final, np.int32)
        rows[: protocol.n_initial] = np.arange(protocol.n_initial)
        return cls(rows, [])

    def finished(self, protocol: Protocol) -> bool:
        """Whether the last model has been trained."""
        return len(self.records) == protocol.n_rounds + 1

    def save(self, path: Path, settings: dict[str, Any]) -> None:
        """Replace the file by this state; what made it stands in the header."""
        header = {"settings": settings, "records": self.records, "devices": describe(), "versions": versions()}
        arrays = {"rows": self.rows}
        if self.ensemble is not None:
            arrays["test_nll"] = self.test_nll
            leaves = jax.tree_util.tree_leaves_with_path(self.ensemble)
            arrays |= {f"ensemble{jax.tree_util.keystr(where)}": np.asarray(leaf) for where, leaf in leaves}
        write(path, header, arrays)

    @classmethod
    def load(cls, path: Path, settings: dict[str, Any], protocol: Protocol) -> RunState:
        """The state in a file, or a new one where there is none; errors and warnings as `milb.learner.run`."""
        stored = read(path)
        if stored is None:
            return cls.new(protocol)
        header, arrays = stored
        different = differences(_comparable(header.get("settings", {})), _comparable(settings))
        if different:
            raise ValueError(f"{path} holds a run with other settings:\n  " + "\n  ".join(different))
        try:
            state = cls(arrays["rows"].astype(np.int32), list(header["records"]))
            state._check(protocol)
            if state.finished(protocol):
                state.test_nll = arrays["test_nll"]
                state.ensemble = _load_ensemble(arrays, protocol)
            made_with = {"devices": header["devices"], "versions": header["versions"]}
        except (KeyError, ValueError, TypeError) as error:
            set_aside(path, error)
            return cls.new(protocol)
        changed = differences(made_with, {"devices": describe(), "versions": versions()})
        if changed and not state.finished(protocol):
            warnings.warn(f"{path} goes on with other rounding: " + "; ".join(changed), stacklevel=4)
        return state

    def _check(self, protocol: Protocol) -> None:
        """ValueError unless this is a state that a run of the protocol goes through."""
        done = len(self.records)
        labelled = self.rows[: min(protocol.n_initial + done * protocol.n_query, protocol.n_final)]
        if self.rows.shape != (protocol.n_final,) or done > protocol.n_rounds + 1:
            raise ValueError(f"it has {done} rounds and {self.rows.shape} rows")
        if [r.get("n") for r in self.records] != [protocol.n_initial + i * protocol.n_query for i in range(done)]:
            raise ValueError("its rounds are not those of the protocol")
        if (labelled[: protocol.n_initial] != np.arange(protocol.n_initial)).any():
            raise ValueError("its first rows are not the initial labels")
        if len(set(labelled.tolist())) < len(labelled) or labelled.min() < 0 or labelled.max() >= protocol.n_pool:
            raise ValueError("its rows repeat or are not in the pool")


def _comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that change no result."""
    protocol = {name: value for name, value in settings.get("protocol", {}).items() if name != "block_size"}
    return {**settings, "protocol": protocol}


def _load_ensemble(arrays: dict[str, np.ndarray], protocol: Protocol) -> Ensemble:
    """The skeleton first, from the settings; then its arrays, by name."""
    inputs, outputs = (
        Standardisation(*(jnp.asarray(arrays[f"ensemble.{side}.{name}"]) for name in ("mean", "scale")))
        for side in ("inputs", "outputs")
    )
    network = network_of(protocol, len(outputs.mean))
    n_inputs = len(inputs.mean)
    skeleton = jax.eval_shape(lambda key: initialise(key, network, protocol.n_members, n_inputs), jax.random.key(0))

    def fill(where: Any, leaf: jax.ShapeDtypeStruct) -> Array:
        name = f"ensemble.parameters{jax.tree_util.keystr(where)}"
        if arrays[name].shape != leaf.shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, not {leaf.shape}")
        return jnp.asarray(arrays[name])

    return Ensemble(jax.tree_util.tree_map_with_path(fill, skeleton), inputs, outputs, network)


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
