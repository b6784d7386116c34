"""Arrays, series and frames as tables of numbers, or a message that says which column is none."""

from __future__ import annotations

import numbers
import operator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from milb.ask_tell.model import Scaling
from milb.checks import with_masks
from milb.tables import LARGEST

FARTHEST = 1e6  # standard deviations of the pool: networks compute in float32


class Table(NamedTuple):
    """Numbers in rows and columns, and the columns' names where they have any."""

    values: Float[np.ndarray, "n d"]
    names: tuple[str, ...] | None

    def called(self, column: int) -> str:
        """How a message calls a column."""
        return f"column {column}" if self.names is None else f"column {self.names[column]!r}"


def as_table(name: str, data: Any) -> Table:
    """float64 columns of a frame, a series, or anything NumPy takes for an array of one or two axes.

    Masked entries become NaN. A frame whose columns are called 0, 1, … in this order has no names.

    Raises:
        ValueError: text, dates, categories or complex numbers in a column; not one or two axes; no column; names of
            a frame's columns that repeat. NaN and infinity pass.
    """
    if isinstance(data, pd.Series):
        data = data.to_frame(0 if data.name is None else data.name)
    if isinstance(data, pd.DataFrame):
        names = tuple(map(str, data.columns))
        columns = [data.iloc[:, i] for i in range(data.shape[1])]
        unnamed = data.columns.equals(pd.RangeIndex(len(names)))  # a frame made of a bare array
    else:
        array = np.asarray(_unmasked(data))
        if array.ndim not in (1, 2):
            raise ValueError(f"{name} must have one or two axes, rows and columns, got shape {array.shape}")
        array = array[:, None] if array.ndim == 1 else array
        names, columns, unnamed = tuple(map(str, range(array.shape[1]))), list(array.T), True
    if not columns:
        raise ValueError(f"{name} has no columns")
    repeated = [column for column in names if names.count(column) > 1]
    if repeated:
        raise ValueError(f"{name} has {names.count(repeated[0])} columns called {repeated[0]!r}: give them other names")
    values = np.empty((len(columns[0]), len(columns)))
    for i, (column, label) in enumerate(zip(columns, names, strict=True)):
        values[:, i] = _numbers(f"{name}, column {label if unnamed else repr(label)}", column)
    return Table(values, None if unnamed else names)


def _unmasked(data: Any) -> Any:
    """Data without masks: None in place of masked entries of an array, or of a list of arrays."""
    data = with_masks(data)
    if not isinstance(data, np.ma.MaskedArray):
        return data
    return np.where(np.ma.getmaskarray(data), None, np.ma.getdata(data).astype(object))


def _numbers(where: str, column: Any) -> Float[np.ndarray, "n"]:
    advice = (
        "; a learner needs numbers: leave the column out, or make a column of 0 and 1 for each of its values, "
        "as pandas.get_dummies does"
    )
    if isinstance(column, pd.Series):
        dtype = column.dtype
        if not (pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_object_dtype(dtype)):
            example = f" ({column.iloc[0]!r} in row 0)" if len(column) else ""
            raise ValueError(f"{where} holds {dtype} values{example}{advice}")
        nullable = pd.api.types.is_extension_array_dtype(dtype)
        column = column.to_numpy(float, na_value=np.nan) if nullable else column.to_numpy()
    if column.dtype.kind not in "biufO":
        example = repr(column[0]) if len(column) else f"{column.dtype} values"
        raise ValueError(f"{where} holds {example}, which is no real number{advice}")
    if column.dtype == object:
        for row, value in enumerate(column):
            if value is not None and not isinstance(value, numbers.Real | np.bool_):
                raise ValueError(f"{where} holds {value!r} in row {row}, which is no real number{advice}")
    try:
        return column.astype(float)
    except OverflowError:
        raise ValueError(f"{where} holds an integer beyond {LARGEST:g}; change units") from None


def checked_x(name: str, data: Any) -> Table:
    """`as_table` of inputs; ValueError also when a value is not finite or above 1e100, naming row and column."""
    table = as_table(name, data)
    bad = np.argwhere(~(np.abs(table.values) <= LARGEST))
    if len(bad):
        row, column = bad[0]
        value = table.values[row, column]
        raise ValueError(f"{name} is {value} in row {row}, {table.called(column)}: a finite number up to 1e100, please")
    return table


def checked_like(name: str, data: Any, pool: Table) -> Float[np.ndarray, "n dx"]:
    """`checked_x` in the pool's columns: a frame's by name, in any order, if the pool has names; others by position.

    A single axis of dx numbers is one row, an empty one no row. Columns called 0, 1, … in another order are names, too.

    Raises:
        ValueError: a column is missing, there is one too many, a value is more than 1e6 of the pool's standard
            deviations from its mean, or as `checked_x`.
    """
    if not isinstance(data, pd.DataFrame) and np.shape(data) == pool.values.shape[1:]:
        data = np.asanyarray(data)[None]
    elif np.shape(data) == (0,):
        data = np.zeros((0, pool.values.shape[1]))
    table = checked_x(name, data)
    wanted = pool.names or tuple(map(str, range(pool.values.shape[1])))
    given = table.names or (tuple(map(str, data.columns)) if isinstance(data, pd.DataFrame) else ())
    if pool.names is not None and table.names is not None:
        missing = [column for column in wanted if column not in given]
        if missing:
            raise ValueError(f"{name} lacks the column {missing[0]!r}; the pool has {', '.join(map(repr, wanted))}")
    elif sorted(given) != sorted(wanted):
        if table.values.shape[1] != len(wanted):
            raise ValueError(f"{name} must have the pool's {len(wanted)} columns, got {table.values.shape[1]}")
        given = wanted
    values = table.values[:, [given.index(column) for column in wanted]]
    shift, scale, _ = Scaling.of(pool.values)
    far = np.argwhere(np.abs(values - shift) > FARTHEST * scale)
    if len(far):
        row, column = far[0]
        raise ValueError(
            f"{name} is {values[row, column]:g} in row {row}, {pool.called(column)}: more than {FARTHEST:g} of the "
            "pool's standard deviations from its mean"
        )
    return values


def checked_y(data: Any, n_rows: int, n_outputs: int | None) -> Table:
    """`as_table` of outputs, (n,) or (n, D): NaN allowed, infinity not. No rows may have any number of columns.

    Raises:
        ValueError: not n_rows rows, not n_outputs columns (None: any), infinite or above 1e100, or as `as_table`.
    """
    table = as_table("y", data)
    if len(table.values) != n_rows:
        raise ValueError(f"y must have one row for each of the {n_rows} points, got {len(table.values)}")
    if n_rows and n_outputs is not None and table.values.shape[1] != n_outputs:
        raise ValueError(f"y must have {n_outputs} column(s), as what was told before, got {table.values.shape[1]}")
    bad = np.argwhere(np.abs(table.values) > LARGEST)
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"y is {table.values[row, column]} in row {row}, {table.called(column)}: beyond 1e100")
    return table


def checked_rows(indices: Any, n_pool: int) -> Int[np.ndarray, "n"]:
    """Rows of the pool; ValueError unless they are integers from 0 to n_pool - 1. One integer is one row."""
    if np.ma.is_masked(indices):
        raise ValueError("indices must be integers, rows of the pool, and none of them masked")
    rows = np.atleast_1d(np.asarray(indices))
    if rows.size == 0:
        return np.zeros(0, int)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(f"indices must be integers, rows of the pool, got {rows.dtype} of shape {rows.shape}")
    wrong = rows[(rows < 0) | (rows >= n_pool)]
    if len(wrong):
        raise ValueError(f"indices must be rows of the pool, 0 to {n_pool - 1}, got {wrong[0]}")
    return rows.astype(int)


def checked_k(k: Any, n_left: int) -> int:
    """How many rows to ask; ValueError unless it is an integer from 1 to what is left."""
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise ValueError(f"k must be an integer, got {k!r}")
    if n_left == 0:
        raise ValueError("nothing is left to ask: every row of the pool is labelled, failed or pending")
    if not 1 <= operator.index(k) <= n_left:
        raise ValueError(f"k must be from 1 to the {n_left} rows that are left, got {k}")
    return operator.index(k)
