"""How far a run has come, kept in one file after every round."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from milb import store as files
from milb.devices import describe, versions
from milb.mdn import Ensemble, Standardisation, initialise
from milb.protocol import Protocol
from milb.training import network_of


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
        files.write(path, header, arrays)

    @classmethod
    def load(cls, path: Path, settings: dict[str, Any], protocol: Protocol) -> RunState:
        """The state in a file, or a new one where there is none; errors and warnings as `milb.learner.run`."""
        stored = files.read(path)
        if stored is None:
            return cls.new(protocol)
        header, arrays = stored
        different = files.differences(_comparable(header.get("settings", {})), _comparable(settings))
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
            files.set_aside(path, error)
            return cls.new(protocol)
        changed = files.differences(made_with, {"devices": describe(), "versions": versions()})
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
