"""All that a learner has been told and has asked, and the one file it is kept in.

A file is a NumPy archive: a JSON header, and plain arrays. Nothing in it depends on a version of JAX: networks are
trained again from the labels.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from milb.ask_tell.columns import Table
from milb.ask_tell.settings import checked, choose
from milb.devices import versions
from milb.protocol import Protocol
from milb.store import unpacked, write, wrong_version

FORMAT, VERSION = "milb learner", 1


@dataclass
class State:
    """What is known; what follows from it, such as a model, is not in here.

    Attributes:
        pool: inputs of all rows, float64, and their names.
        strategy: the name that it is recorded by.
        seed: of training and selection.
        protocol: as given: a whole one, changes to the automatic one, or None.
        labels: outputs by row of the pool, NaN where measuring failed.
        pending: rows asked and not told yet, in the order of the picks.
        extra_x, extra_y: points from outside the pool.
        n_outputs, output_names: D, 0 until something is told, and names where outputs had some.
        curve: what `report` found, by number of labels.
    """

    pool: Table
    strategy: str
    seed: int
    protocol: Protocol | dict[str, Any] | None
    labels: dict[int, Float[np.ndarray, "D"]] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    extra_x: Float[np.ndarray, "m dx"] = field(default_factory=lambda: np.zeros((0, 0)))
    extra_y: Float[np.ndarray, "m D"] = field(default_factory=lambda: np.zeros((0, 0)))
    n_outputs: int = 0
    output_names: tuple[str, ...] | None = None
    curve: dict[int, dict[str, float]] = field(default_factory=dict)

    def tell(self, rows: list[int], table: Table, replace: bool) -> None:
        """Take in labels of rows, if any; ValueError as `Learner.tell`, and then nothing has changed."""
        names, labels = self._checked_names(table), dict(self.labels)
        given: dict[int, Float[np.ndarray, "D"]] = {}
        for row, y in zip(rows, table.values, strict=True):
            twice = given.get(row, y)
            if not (np.isnan(twice).any() or np.array_equal(twice, y)):
                raise ValueError(f"row {row} is given twice, as {twice} and as {y}")
            given[row] = y
            before = labels.get(row)
            if not (replace or before is None or np.isnan(before).any() or np.array_equal(before, y)):
                raise ValueError(f"row {row} was told as {before}, now {y}; replace=True takes the new label")
            labels[row] = y.copy()
        if not rows:
            return
        self.labels, self.output_names, self.n_outputs = labels, names, table.values.shape[1]
        self.pending = [row for row in self.pending if row not in labels]

    def tell_extra(self, x: Float[np.ndarray, "m dx"], table: Table) -> None:
        """Take in points from outside the pool, if any; ValueError as `Learner.tell_extra`."""
        names = self._checked_names(table)
        if not len(x):
            return
        self.output_names, self.n_outputs = names, table.values.shape[1]
        first = not len(self.extra_x)
        self.extra_x = x if first else np.concatenate([self.extra_x, x])
        self.extra_y = table.values if first else np.concatenate([self.extra_y, table.values])

    def _checked_names(self, table: Table) -> tuple[str, ...] | None:
        if self.output_names is not None and table.names not in (None, self.output_names):
            raise ValueError(f"y has the columns {table.names}, what was told before {self.output_names}")
        return self.output_names or table.names

    def rows(self, failed: bool = False) -> list[int]:
        """Rows of the pool with a label, or those that failed, rising."""
        return sorted(row for row, y in self.labels.items() if np.isnan(y).any() == failed)

    def extras(self) -> tuple[Float[np.ndarray, "e dx"], Float[np.ndarray, "e D"]]:
        """Points from outside the pool that did not fail, in an order that does not depend on when they were told."""
        good = ~np.isnan(self.extra_y).any(axis=1)
        x, y = self.extra_x[good], self.extra_y[good]
        order = np.lexsort(np.concatenate([x, y], axis=1).T) if len(x) else np.zeros(0, int)
        return x[order].reshape(len(x), self.pool.values.shape[1]), y[order].reshape(len(y), self.n_outputs)

    def training_set(self) -> tuple[Float[np.ndarray, "n dx"], Float[np.ndarray, "n D"]]:
        """All labels, of the pool's rows, rising, and then the extras."""
        rows, (extra_x, extra_y) = self.rows(), self.extras()
        y = np.array([self.labels[row] for row in rows], float).reshape(len(rows), self.n_outputs)
        return np.concatenate([self.pool.values[rows], extra_x]), np.concatenate([y, extra_y])

    def copied_labels(self) -> dict[int, Float[np.ndarray, "D"]]:
        """What was told of rows of the pool, by row, rising; the caller's own."""
        return {row: self.labels[row].copy() for row in sorted(self.labels)}

    def curve_table(self) -> pd.DataFrame:
        """`curve`, one row for each number of labels n, rising: nll, nll_error, unconditional_nll, certificate_high."""
        columns = ["nll", "nll_error", "unconditional_nll", "certificate_high"]
        of_n = [[self.curve[n].get(name, np.nan) for name in columns] for n in sorted(self.curve)]
        return pd.DataFrame(of_n, index=pd.Index(sorted(self.curve), name="n", dtype=int), columns=columns, dtype=float)

    @property
    def chosen_by_user(self) -> bool:
        """Whether the protocol is used as it was given."""
        return isinstance(self.protocol, Protocol)

    @property
    def n_labels(self) -> int:
        """How many labels there are to train on."""
        return len(self.rows()) + len(self.extras()[0])

    @property
    def n_left(self) -> int:
        """Rows of the pool that are neither labelled nor failed."""
        return len(self.pool.values) - len(self.labels)

    def settings(self) -> Protocol:
        """The protocol as given, or chosen for the labels there are."""
        if self.chosen_by_user:
            return self.protocol
        n_pool, n_inputs = self.pool.values.shape
        return choose(self.n_labels, n_inputs, max(1, self.n_outputs), n_pool, **(self.protocol or {}))

    def save(self, path: Path) -> None:
        """Replace the file at once; OSError when that is not possible."""
        if not path.parent.is_dir():
            raise FileNotFoundError(f"the folder {path.parent} does not exist")
        header = {
            "strategy": self.strategy,
            "seed": self.seed,
            "protocol": asdict(self.protocol) if self.chosen_by_user else self.protocol,
            "whole_protocol": self.chosen_by_user,
            "input_names": self.pool.names,
            "output_names": self.output_names,
            "curve": sorted(self.curve.items()),
            "versions": versions(),
        }
        rows = sorted(self.labels)
        arrays = {
            "pool_x": self.pool.values,
            "rows": np.array(rows, np.int64),
            "y": np.array([self.labels[row] for row in rows], float).reshape(len(rows), self.n_outputs),
            "pending": np.array(self.pending, np.int64),
            "extra_x": self.extra_x.reshape(len(self.extra_x), self.pool.values.shape[1]),
            "extra_y": self.extra_y.reshape(len(self.extra_y), self.n_outputs),
        }
        write(path, header, arrays, kind=(FORMAT, VERSION))

    @classmethod
    def load(cls, path: Path) -> State:
        """The state in a file; the file stays as it is, whatever is wrong.

        Raises:
            OSError: it cannot be read.
            ValueError: it was written by a newer milb, or is damaged or none of a learner.
        """
        content = path.read_bytes()
        try:
            header, arrays = unpacked(content, FORMAT)
            if header["version"] == VERSION:
                return cls._from(header, arrays)
        except Exception as error:  # a damaged archive raises whatever its parts raise
            raise ValueError(f"{path} is no file of a learner, or damaged: {error}") from error
        raise wrong_version(path, header, VERSION)

    @classmethod
    def _from(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> State:
        pool_x, rows, y = arrays["pool_x"], arrays["rows"].tolist(), arrays["y"]
        pending, extra_x, extra_y = arrays["pending"].tolist(), arrays["extra_x"], arrays["extra_y"]
        known = [*rows, *pending]
        if pool_x.ndim != 2 or len(set(known)) < len(known) or any(not 0 <= row < len(pool_x) for row in known):
            raise ValueError("its rows repeat or are not in the pool")
        if len(y) != len(rows) or extra_x.shape != (len(extra_y), pool_x.shape[1]) or extra_y.shape[1] != y.shape[1]:
            raise ValueError(f"its arrays do not fit together: y {y.shape}, extra_y {extra_y.shape}")
        protocol = Protocol(**header["protocol"]) if header["whole_protocol"] else header["protocol"]
        protocol = checked(protocol, *pool_x.shape)
        names, output_names = header["input_names"], header["output_names"]
        return cls(
            pool=Table(pool_x, None if names is None else tuple(names)),
            strategy=header["strategy"],
            seed=header["seed"],
            protocol=protocol,
            labels=dict(zip(rows, y, strict=True)),
            pending=pending,
            extra_x=extra_x,
            extra_y=extra_y,
            n_outputs=y.shape[1],
            output_names=None if output_names is None else tuple(output_names),
            curve={int(n): values for n, values in header["curve"]},
        )
