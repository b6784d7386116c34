"""Every bad file gets one line with file, row and column; good ones are read as they are."""

import numpy as np
import pytest

from milb.tables import read_labels, read_pool, write_rows

POOL = "id,T,dose\na,800, 1.5\nb,850,2e0\n\n c ,900,.5\n"
LABELS = "id,y1,y2\nc,1,2\na,nan,\n"
OUTPUTS = ["y1", "y2"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes pool.csv and labels.csv into the current folder and reads them."""
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    def read(pool=POOL, labels=LABELS, id_column="id"):
        for name, content in (("pool.csv", pool), ("labels.csv", labels)):
            Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        table = read_pool(Path("pool.csv"), id_column, OUTPUTS)
        return table, read_labels(Path("labels.csv"), table, OUTPUTS)

    return read


def test_reads_pool_and_labels(files):
    pool, (rows, y) = files()
    assert (pool.names, list(pool.rows)) == (("T", "dose"), ["a", "b", "c"])
    np.testing.assert_array_equal(pool.x, [[800, 1.5], [850, 2], [900, 0.5]])
    assert rows.tolist() == [2, 0]
    np.testing.assert_array_equal(y, [[1, 2], [np.nan, np.nan]])


def test_reads_what_spreadsheets_write(files):
    labels = b'\xef\xbb\xbfy2,"id",T,y1,remark\r\n4,b,850.0000001,3,"a, ""b"""\r\nNA,a,8e2,,\r\n4.0,b,850,3,again\r\n'
    _, (rows, y) = files(labels=labels)
    assert rows.tolist() == [1, 0]
    np.testing.assert_array_equal(y, [[3, 4], [np.nan, np.nan]])


def test_nameless_columns_behind_the_labels_are_not_looked_at(files):
    _, (rows, y) = files(labels="id,y1,y2,,\na,1,2,,\nb,3,4,,a remark\n")
    assert rows.tolist() == [0, 1] and y.tolist() == [[1, 2], [3, 4]]


def test_no_labels_yet(files):
    _, (rows, y) = files(labels="id,y1,y2\n")
    assert rows.shape == (0,) and y.shape == (0, 2)


def test_another_id_column(files):
    pool, _ = files("T,key\n1,x\n", "key,y1,y2\nx,1,2\n", "key")
    assert pool.names == ("T",) and list(pool.rows) == ["x"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"pool": ""}, "pool.csv is empty: it needs a header, with the column(s) id"),
        ({"pool": "id,T\n"}, "pool.csv has a header, but no rows"),
        ({"pool": "id\na\n"}, "pool.csv has no inputs: 'id' is its only column"),
        ({"pool": "key,T\na,1\n"}, "pool.csv has no column 'id'; its columns are 'key', 'T'"),
        ({"pool": "id;T\na;1\n"}, "'id;T'; separate columns by commas, not by semicolons"),
        ({"pool": "id,T,T\na,1,2\n"}, "pool.csv, row 1: the column 'T' occurs 2 times"),
        ({"pool": ",id,T\n0,a,1\n"}, "pool.csv, row 1: column 1 has no name"),
        ({"pool": "id,T,y1\na,1,2\n"}, "pool.csv, column 'y1': an output"),
        ({"pool": "id,T\na,1\nb,hot\n"}, "pool.csv, row 3, column 'T': 'hot' is no number; all columns of the pool"),
        ({"pool": "id,T\na,1_000\n"}, "pool.csv, row 2, column 'T': '1_000' is no number"),
        ({"pool": "id,T\na,\n"}, "pool.csv, row 2, column 'T': empty"),
        ({"pool": "id,T\na,nan\n"}, "pool.csv, row 2, column 'T': 'nan' is not a finite number"),
        ({"pool": "id,T\na,1e400\n"}, "pool.csv, row 2, column 'T': '1e400' is not a finite number"),
        ({"pool": "id,T\na,1\n\nb,1,2\n"}, "pool.csv, row 4: 3 fields, but the header has 2"),
        ({"pool": "id,T\na,1\na,2\n"}, "pool.csv, row 3, column 'id': 'a' is in row 2 already"),
        ({"pool": "id,T\n,1\n"}, "pool.csv, row 2, column 'id': empty; every row needs an id"),
        ({"pool": "id,T\nä,1\n".encode("latin-1")}, "pool.csv is not UTF-8 text (it has a byte 0xe4)"),
        ({"pool": "id,T\na,1\n".encode("utf-16")}, "pool.csv is not UTF-8 text (it has a byte 0xff)"),
        ({"pool": 'id,T\na,"1\n'}, "pool.csv, row 2: unexpected end of data"),
        ({"labels": ""}, "labels.csv is empty: it needs a header, with the column(s) id, y1, y2"),
        ({"labels": "id,y1\na,1\n"}, "labels.csv has no column 'y2'; its columns are 'id', 'y1'"),
        ({"labels": "id,y1,y2\na,1,good\n"}, "labels.csv, row 2, column 'y2': 'good' is no number; leave it empty"),
        ({"labels": "id,y1,y2\na,1\n"}, "labels.csv, row 2: 2 fields, but the header has 3"),
        ({"labels": "id,y1,y2\nz,1,2\n"}, "labels.csv, row 2, column 'id': 'z' is not in pool.csv"),
        ({"labels": "id,y1,y2\na,1,-1e400\n"}, "labels.csv, row 2, column 'y2': '-1e400' is not a finite number"),
        ({"labels": "id,y1,y2\na,1,2\nb,1,2\na,1,3\n"}, "row 4, column 'y2': 3 for 'a', which has 2 in row 2"),
        ({"labels": "id,y1,y2\na,,\na,1,3\n"}, "labels.csv, row 3, column 'y1': 1 for 'a', which has nan in row 2"),
        ({"labels": "id,T,y1,y2\nb,800,1,2\n"}, "row 2, column 'T': 800, but pool.csv has 850 for that id"),
    ],
)
def test_one_clear_line(files, changed, message):
    with pytest.raises(ValueError) as error:
        files(**changed)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_missing_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.csv does not exist"):
        read_pool(tmp_path / "no.csv")


def test_writes_rows_as_they_were_in_the_order_asked(files, tmp_path):
    pool, _ = files('id,T,"a, b"\n007,1.50,"2"\nb,3,4\n"c ""x""",5,6\n', "id,y1,y2\n")
    write_rows(pool, [2, 0], tmp_path / "next.csv")
    assert (tmp_path / "next.csv").read_text() == 'id,T,"a, b"\n"c ""x""",5,6\n007,1.50,2\n'


def test_the_pool_is_read_once(files, tmp_path):
    """So it may change while networks are trained, or be a pipe."""
    pool, _ = files()
    (tmp_path / "pool.csv").write_text("id,T\nz,0\n")
    write_rows(pool, [2, 1], tmp_path / "next.csv")
    assert (tmp_path / "next.csv").read_text() == "id,T,dose\nc,900,.5\nb,850,2e0\n"


def test_a_link_stays_a_link(files, tmp_path):
    pool, _ = files()
    (tmp_path / "folder").mkdir()
    (tmp_path / "next.csv").symlink_to(tmp_path / "folder" / "real.csv")
    for row in "ab":  # there is no file yet, and then there is one
        write_rows(pool, [pool.rows[row]], tmp_path / "next.csv")
        assert (tmp_path / "next.csv").is_symlink()
        assert (tmp_path / "folder" / "real.csv").read_text().splitlines()[1].startswith(row)


def test_nothing_is_left_where_writing_fails(files, tmp_path):
    pool, _ = files()
    (tmp_path / "next.csv").write_text("old")
    with pytest.raises(IndexError):
        write_rows(pool, [99], tmp_path / "next.csv")
    assert (tmp_path / "next.csv").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"pool.csv", "labels.csv", "next.csv"}
