"""Arrays and frames of all kinds become float64 columns, or are refused by name."""

import numpy as np
import pandas as pd
import pytest

from milb.ask_tell import columns

POOL = columns.Table(np.zeros((5, 2)), ("T", "dose"))
FRAME = pd.DataFrame({"T": [1, 2], "dose": [0.5, 1.5]})


@pytest.mark.parametrize(
    "data",
    [
        [[1, 0.5], [2, 1.5]],
        np.array([[1, 0.5], [2, 1.5]], np.float32),
        np.array([[1, 0.5], [2, 1.5]], object),
        FRAME,
        FRAME.astype(object),
        FRAME.convert_dtypes(),
        pd.DataFrame(FRAME.to_numpy()),
    ],
)
def test_numbers_of_all_kinds(data):
    table = columns.as_table("x", data)
    assert table.values.dtype == np.float64
    np.testing.assert_array_equal(table.values, [[1, 0.5], [2, 1.5]])
    assert table.names == (("T", "dose") if isinstance(data, pd.DataFrame) and "T" in data else None)


@pytest.mark.parametrize("data", [[3, 4], np.array([True, False]), pd.Series([1, 2]), np.array([2**53, 1])])
def test_one_axis_is_one_column(data):
    table = columns.as_table("y", data)
    assert table.values.shape == (2, 1) and table.values[0, 0] == float(np.asarray(data)[0])
    assert table.names is None


def test_no_text_at_all_is_no_number_either():
    with pytest.raises(ValueError, match="y, column 0 holds <U1 values, which is no real number"):
        columns.as_table("y", np.array([], str))


def test_series_and_missing_values():
    table = columns.as_table("y", pd.Series([1, None], name="strength", dtype="Int64"))
    assert table.names == ("strength",)
    np.testing.assert_array_equal(table.values, [[1], [np.nan]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"T": [1], "solvent": ["water"]}), r"x, column 'solvent' holds .* values \('water' in row 0\)"),
        (pd.DataFrame({"T": pd.Series([1, "hot"], dtype=object)}), "column 'T' holds 'hot' in row 1"),
        (pd.DataFrame({"T": pd.Categorical(["a"])}), "column 'T' holds category values"),
        (pd.DataFrame({"T": pd.to_datetime(["2026-01-01"])}), "column 'T' holds datetime64"),
        (np.array([["a", "b"]]), "x, column 0 holds .*'a'.*, which is no real number; a learner needs numbers"),
        (np.array([[1j]]), "which is no real number"),
        (np.zeros((2, 2, 2)), r"one or two axes, rows and columns, got shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), "x has no columns"),
        (pd.DataFrame([[1, 2]], columns=["T", "T"]), "x has 2 columns called 'T'"),
        ([[1, np.nan]], "x is nan in row 0, column 1: a finite number"),
        (pd.DataFrame({"T": [1, np.inf]}), "x is inf in row 1, column 'T'"),
        ([[10**400], [1]], r"x, column 0 holds an integer beyond 1e\+100; change units"),
        ([[1e101]], r"x is 1e\+101 in row 0"),
    ],
)
def test_refuses_inputs(data, message):
    with pytest.raises(ValueError, match=message):
        columns.checked_x("x", data)


def test_frames_go_by_name_and_arrays_by_position():
    swapped = FRAME[["dose", "T"]].assign(remark=0)
    np.testing.assert_array_equal(columns.checked_like("x", swapped, POOL), FRAME)
    np.testing.assert_array_equal(columns.checked_like("x", FRAME.to_numpy(), POOL), FRAME)
    np.testing.assert_array_equal(columns.checked_like("x", [1, 2], POOL), [[1, 2]])
    with pytest.raises(ValueError, match="x lacks the column 'dose'; the pool has 'T', 'dose'"):
        columns.checked_like("x", FRAME[["T"]], POOL)
    with pytest.raises(ValueError, match="x must have the pool's 2 columns, got 3"):
        columns.checked_like("x", np.zeros((1, 3)), POOL)


def test_columns_called_by_integers():
    frame = pd.DataFrame([[1.0, 2.0]], columns=[400, 500])
    pool = columns.checked_x("pool_x", frame)
    assert pool.names == ("400", "500")
    np.testing.assert_array_equal(columns.checked_like("x", frame[[500, 400]], pool), [[1, 2]])
    bare = pd.DataFrame([[1.0, 2.0]])  # without names, but its columns may be put into another order
    for order in ([0, 1], [1, 0]):
        pool = columns.checked_x("pool_x", bare[order])
        for other in (bare, bare[[1, 0]]):
            np.testing.assert_array_equal(columns.checked_like("x", other, pool), pool.values)
    with pytest.raises(ValueError, match="x must have the pool's 2 columns, got 3"):
        columns.checked_like("x", pd.DataFrame(np.zeros((1, 3))), columns.Table(np.zeros((5, 2)), None))


def test_masked_entries_are_missing():
    masked = np.ma.array([[1, -999], [2, 3]], mask=[[0, 1], [0, 0]])
    for data in (masked, masked.astype(np.float32), list(masked)):
        np.testing.assert_array_equal(columns.checked_y(data, 2, 2).values, [[1, np.nan], [2, 3]])
    for name, row in (("x", masked), ("x", masked[0])):
        with pytest.raises(ValueError, match="x is nan in row 0, column 1"):
            columns.checked_like(name, row, POOL)
    with pytest.raises(ValueError, match="none of them masked"):
        columns.checked_rows(masked[0], 5)


def test_far_inputs():
    pool = columns.Table(np.array([[0.0, 5], [2, 5]]), ("T", "dose"))
    columns.checked_like("x", [[1e6, 5]], pool)
    with pytest.raises(ValueError, match=r"x is 1e\+20 in row 1, column 'T': more than 1e\+06 of the pool's standard"):
        columns.checked_like("x", [[0, 5], [1e20, 5]], pool)


@pytest.mark.parametrize(
    ("y", "n_outputs", "message"),
    [
        ([1, 2, 3], None, "one row for each of the 2 points, got 3"),
        ([1, 2], 2, r"y must have 2 column\(s\), as what was told before, got 1"),
        ([[1], [np.inf]], None, "y is inf in row 1, column 0"),
    ],
)
def test_refuses_outputs(y, n_outputs, message):
    with pytest.raises(ValueError, match=message):
        columns.checked_y(y, 2, n_outputs)


@pytest.mark.parametrize("rows", [[0, 4], 3, np.uint8([1]), []])
def test_rows(rows):
    assert columns.checked_rows(rows, 5).tolist() == np.atleast_1d(rows).tolist()


@pytest.mark.parametrize("rows", [[5], [-1], [0.0], [True], [[0]], ["a"]])
def test_refuses_rows(rows):
    with pytest.raises(ValueError, match="indices must be"):
        columns.checked_rows(rows, 5)


@pytest.mark.parametrize(
    ("k", "left", "message"),
    [(0, 3, "from 1 to the 3 rows"), (4, 3, "got 4"), (1.0, 3, "integer"), (True, 3, "integer"), (1, 0, "nothing is")],
)
def test_refuses_k(k, left, message):
    with pytest.raises(ValueError, match=message):
        columns.checked_k(k, left)
