"""CSV files of a laboratory: read strictly, refused with file, row and column, written whole or not at all.

Rows are counted as a spreadsheet counts them: the header is row 1. Files are UTF-8 with commas between columns and
decimal points; a byte order mark is allowed. Fields lose blanks around them.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from milb.store import replacing

FAILED = ("", "nan", "na")  # how an output that could not be measured may be written, in any case
LARGEST = 1e100  # of a number: its square is still one
_OWN_INPUTS = (
    "; all columns of the pool but the id are inputs and must be numbers: leave this one out, or make a column of 0 "
    "and 1 for each of its values"
)


@dataclass(frozen=True)
class PoolTable:
    """The candidates of a CSV file.

    Attributes:
        path: of the file.
        id_column: the column that names a candidate; the others are inputs.
        names: of the inputs, in the file's order.
        rows: from a candidate's id to its index, 0 for the first.
        x: (N, dx), the inputs.
        header, lines: the file's rows, ready to be written again; it is read only once, so it may be a pipe.
    """

    path: Path
    id_column: str
    names: tuple[str, ...]
    rows: dict[str, int]
    x: Float[np.ndarray, "N dx"]
    header: str
    lines: list[str]


def read_pool(path: Path, id_column: str = "id", outputs: Sequence[str] = ()) -> PoolTable:
    """Read the candidates: an id column, and inputs in all other columns.

    Memory is that of x, of the ids and of the file's text, which is read row by row.

    Raises:
        ValueError: says file, row and column of what is wrong: no rows or no header, no id column, an id that repeats,
            an output among the inputs, a column without a name, a row of another length, an input that is no finite
            number, or not UTF-8.
        OSError: the file cannot be read.
    """
    rows = _rows(path)
    header = _header(path, rows, (id_column,))
    for name in outputs:
        if name in header:
            raise ValueError(f"{path}, column {name!r}: an output; the pool holds inputs only, labels go elsewhere")
    if "" in header:
        raise ValueError(f"{path}, row 1: column {header.index('') + 1} has no name")
    inputs = [(i, name) for i, name in enumerate(header) if name != id_column]
    if not inputs:
        raise ValueError(f"{path} has no inputs: {id_column!r} is its only column")
    index: dict[str, int] = {}
    seen: dict[str, int] = {}
    values, lines = array("d"), []
    for number, fields in rows:
        key = fields[header.index(id_column)]
        _check_id(path, number, id_column, key)
        if key in index:
            raise ValueError(f"{path}, row {number}, column {id_column!r}: {key!r} is in row {seen[key]} already")
        index[key], seen[key] = len(index), number
        lines.append(_line(fields))
        values.extend(_number(path, number, name, fields[i], _OWN_INPUTS) for i, name in inputs)
    if not index:
        raise ValueError(f"{path} has a header, but no rows")
    x = np.frombuffer(values).reshape(len(index), len(inputs))
    return PoolTable(path, id_column, tuple(name for _, name in inputs), index, x, _line(header), lines)


def read_labels(
    path: Path, pool: PoolTable, outputs: Sequence[str]
) -> tuple[Int[np.ndarray, "n"], Float[np.ndarray, "n D"]]:
    """Read measured outputs of candidates: the pool's id column, and a column for each output.

    An output that is empty, NaN or NA is a failed measurement. Of the other columns those that are inputs of the pool
    must agree with it; the rest is not looked at. A header without rows is no labels.

    Returns:
        Indices of the candidates, and their outputs, NaN where measuring failed; one row an id.

    Raises:
        ValueError: as `read_pool`, and for an id that is not in the pool, or given twice with different outputs.
        OSError: the file cannot be read.
    """
    rows = _rows(path)
    header = _header(path, rows, (pool.id_column, *outputs))
    known = [(header.index(name), name, column) for column, name in enumerate(pool.names) if name in header]
    where = [(header.index(name), name) for name in outputs]
    labels: dict[int, tuple[int, list[float]]] = {}
    for number, fields in rows:
        key = fields[header.index(pool.id_column)]
        _check_id(path, number, pool.id_column, key)
        if key not in pool.rows:
            raise ValueError(f"{path}, row {number}, column {pool.id_column!r}: {key!r} is not in {pool.path}")
        row = pool.rows[key]
        for i, name, column in known:
            _check_agrees(path, number, name, _number(path, number, name, fields[i]), pool, row, column)
        y = [_output(path, number, name, fields[i]) for i, name in where]
        first, earlier = labels.setdefault(row, (number, y))
        for name, old, new in zip(outputs, earlier, y, strict=True):
            if not (old == new or (np.isnan(old) and np.isnan(new))):
                raise ValueError(
                    f"{path}, row {number}, column {name!r}: {new:g} for {key!r}, which has {old:g} in row {first}"
                )
    y = np.array([y for _, y in labels.values()], float).reshape(len(labels), len(outputs))
    return np.array(list(labels), int), y


def write_rows(pool: PoolTable, indices: Sequence[int], path: Path) -> None:
    """Write the header and some rows of the pool, as they were read, in this order, replacing the file at once.

    Args:
        pool: where the rows are from.
        indices: of the rows.
        path: to write to; where it is a link, the file that it leads to is replaced.

    Raises:
        OSError: `path` cannot be written; whatever it was before, it still is.
    """
    text = "".join([pool.header, *(pool.lines[i] for i in indices)])
    with replacing(path) as file:
        file.write(text.encode())


def _line(fields: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Row number and fields of every row that is not blank, all as long as the first."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    length = None
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        try:
            for number, fields in enumerate(reader, start=1):
                if not any(map(str.strip, fields)):
                    continue
                length = len(fields) if length is None else length
                if len(fields) != length:
                    raise ValueError(f"{path}, row {number}: {len(fields)} fields, but the header has {length}")
                yield number, [field.strip() for field in fields]
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise ValueError(f"{path} is not UTF-8 text (it has a byte {byte:#04x}): save it as 'CSV UTF-8'") from None
        except csv.Error as error:
            raise ValueError(f"{path}, row {reader.line_num}: {error}") from None


def _header(path: Path, rows: Iterator[tuple[int, list[str]]], needed: Sequence[str]) -> list[str]:
    _, header = next(rows, (0, []))
    if not header:
        raise ValueError(f"{path} is empty: it needs a header, with the column(s) {', '.join(needed)}")
    for name in filter(None, header):  # spreadsheets leave nameless columns behind the last one
        if header.count(name) > 1:
            raise ValueError(f"{path}, row 1: the column {name!r} occurs {header.count(name)} times")
    for name in needed:
        if name not in header:
            advice = "; separate columns by commas, not by semicolons" if ";" in header[0] else ""
            raise ValueError(f"{path} has no column {name!r}; its columns are {', '.join(map(repr, header))}{advice}")
    return header


def _check_id(path: Path, row: int, column: str, key: str) -> None:
    if not key:
        raise ValueError(f"{path}, row {row}, column {column!r}: empty; every row needs an id")


def _number(path: Path, row: int, column: str, text: str, advice: str = "") -> float:
    where = f"{path}, row {row}, column {column!r}"
    try:
        value = float(text.replace("_", "?"))  # Python would read 1_000
    except ValueError:
        raise ValueError(f"{where}: {text!r} is no number{advice}" if text else f"{where}: empty") from None
    if not abs(value) <= LARGEST:
        raise ValueError(
            f"{where}: {text!r} is not a finite number up to {LARGEST:g}; leave the row out or change units"
        )
    return value


def _output(path: Path, row: int, column: str, text: str) -> float:
    if text.lower() in FAILED:
        return float("nan")
    return _number(path, row, column, text, "; leave it empty where measuring failed")


def _check_agrees(path: Path, row: int, name: str, value: float, pool: PoolTable, index: int, column: int) -> None:
    expected = pool.x[index, column]
    if abs(value - expected) > 1e-6 * max(abs(expected), abs(value)):
        raise ValueError(f"{path}, row {row}, column {name!r}: {value:g}, but {pool.path} has {expected:g} for that id")
