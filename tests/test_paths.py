"""Where results go, from any working folder."""

import os
import stat
from pathlib import Path

import pytest

from milb import paths

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def no_home(monkeypatch):
    monkeypatch.delenv("MILB_HOME", raising=False)


def test_checkout_whatever_the_working_folder(monkeypatch, tmp_path):
    for folder in (CHECKOUT, CHECKOUT / "tests", tmp_path):
        monkeypatch.chdir(folder)
        assert paths.root() == CHECKOUT
    assert paths.runs() == CHECKOUT / "runs"
    assert paths.figures("demo") == CHECKOUT / "runs" / "figures" / "demo"
    assert paths.figures_data() == CHECKOUT / "figures" / "data"


def test_working_folder_outside_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "site-packages" / "milb" / "paths.py"))
    monkeypatch.chdir(tmp_path)
    assert paths.root() == tmp_path


def test_environment_variable_wins(monkeypatch, tmp_path):
    monkeypatch.setenv("MILB_HOME", str(tmp_path / "elsewhere"))
    assert paths.runs() == tmp_path / "elsewhere" / "runs"
    monkeypatch.setenv("MILB_HOME", "~/elsewhere")
    assert paths.root() == Path.home() / "elsewhere"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILB_HOME", "relative")
    assert paths.root() == tmp_path / "relative"
    monkeypatch.setenv("MILB_HOME", "")
    assert paths.root() == CHECKOUT
    monkeypatch.setenv("MILB_HOME", "~nobody9")
    with pytest.raises(ValueError, match="MILB_HOME '~nobody9': "):
        paths.root()


def test_links_are_followed_but_not_for_ever(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert paths.resolved(tmp_path / "link", "store") == tmp_path / "there"
    with pytest.raises(ValueError, match=r"archive .*loop is a link to itself"):
        paths.resolved(tmp_path / "loop", "archive")
    with pytest.raises(ValueError, match="store must be a path, got an empty one"):
        paths.resolved("", "store")


def test_looking_creates_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("MILB_HOME", str(tmp_path / "elsewhere"))
    paths.figures("paper")
    paths.figures_data()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", ["huge", "", "Demo", "../demo"])
def test_unknown_scale(scale):
    with pytest.raises(ValueError, match="scale must be one of 'smoke', 'demo', 'paper', got"):
        paths.figures(scale)


def test_writable_creates_and_may_be_called_again(tmp_path):
    folder = tmp_path / "a" / "b"
    assert paths.writable(folder) == folder
    assert paths.writable(folder).is_dir()


def test_folder_that_cannot_be_created(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PermissionError, match=r"cannot create .*file.*MILB_HOME"):
        paths.writable(tmp_path / "file" / "runs")


def test_read_only_folder(monkeypatch, tmp_path):
    if os.geteuid() == 0:  # root may write anywhere
        monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(PermissionError, match=r"cannot write to .*MILB_HOME"):
            paths.writable(tmp_path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)
