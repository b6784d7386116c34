"""`python -m milb.plots` draws figures/ from figures/data, and from nothing else."""

import shutil
from pathlib import Path

import pytest

from milb.plots.__main__ import FIGURES, main

DATA = Path(__file__).parents[1] / "data"
NAME = "05_double_well_paper_seed0"


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    data = tmp_path / "figures" / "data"
    data.mkdir(parents=True)
    shutil.copy(DATA / "released_curves.csv", data)
    rows = "mi-lb,0,100,900.0,0.9\nmi-lb,0,150,300.0,0.7\n"
    (data / f"{NAME}.csv").write_text("# made up\nstrategy,seed,n,nll_mean,saturated_share\n" + rows)
    return tmp_path


def drawn(home):
    return {file.name: file.read_bytes() for file in (home / "figures").iterdir() if file.is_file()}


def test_draws_every_figure_with_the_same_bytes_each_time(home, capsys, monkeypatch):
    main([])
    assert capsys.readouterr().out == f"{NAME}: drawn\n"
    first = drawn(home)
    assert sorted(first) == sorted(f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    main([])
    assert drawn(home) == first


@pytest.mark.parametrize("missing", [NAME, "released_curves"])
def test_skips_what_has_no_data(home, capsys, missing):
    (home / "figures" / "data" / f"{missing}.csv").unlink()
    main([])
    assert capsys.readouterr().out == f"{NAME}: skipped, {Path('figures', 'data', missing)}.csv is not there\n"
    assert not drawn(home)


def test_data_that_make_no_sense_are_an_error(home):
    (home / "figures" / "data" / f"{NAME}.csv").write_text("strategy,seed\nmi-lb,0\n")
    with pytest.raises(ValueError, match="it lacks n, nll_mean"):
        main([])
