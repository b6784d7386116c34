"""How far a run has come, kept in one file: rewritten whole after every round, never left half-written."""

from __future__ import annotations

import json
import os
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from milb.devices import describe, versions
from milb.mdn import Ensemble, Standardisation, initialise
from milb.protocol import Protocol
from milb.training import network_of

FORMAT = "milb run"
VERSION = 1


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
        different = differences(header.get("settings", {}), settings)
        if different:
            raise ValueError(f"{path} holds a run with other settings:\n  " + "\n  ".join(different))
        try:
            state = cls(arrays["rows"].astype(np.int32), list(header["records"]))
            if state.rows.shape != (protocol.n_final,):
                raise ValueError(f"it lists {state.rows.shape} rows")
            if state.finished(protocol):
                state.test_nll = arrays["test_nll"]
                state.ensemble = _load_ensemble(arrays, protocol)
        except (KeyError, ValueError, TypeError) as error:
            set_aside(path, error)
            return cls.new(protocol)
        if header["devices"] != describe() and not state.finished(protocol):
            warnings.warn(
                f"{path} was begun on {header['devices']} and goes on on {describe()}: rounding differs", stacklevel=3
            )
        return state


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


def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Replace the file at once: whoever reads it, or is killed, finds the old or the new one, whole.

    Raises:
        OSError: the folder cannot be written.
    """
    header = {"format": FORMAT, "version": VERSION, **header}
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, header=np.array(json.dumps(header)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays; None when there is no file, or none that can be used.

    A truncated or foreign file is set aside, under its name with `.unreadable` behind it, never deleted.

    Warns:
        UserWarning: a file was set aside; says which, why and where to.
    """
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError(f"it holds {header['format']!r} version {header['version']}")
        return header, arrays
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        set_aside(path, error)
        return None


def set_aside(path: Path, why: object) -> None:
    """Rename a file that cannot be used, so that nothing overwrites it; warns with both names and the reason."""
    aside = path.with_name(f"{path.name}.unreadable")
    for attempt in range(1, 1_000):
        if not aside.exists():
            break
        aside = path.with_name(f"{path.name}.unreadable-{attempt}")
    os.replace(path, aside)
    warnings.warn(f"{path} is no file of a {FORMAT} ({why}); set aside as {aside.name}, starting over", stacklevel=3)


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
