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
    monkeypatch.delitem(FIGURES, "07_replay")  # needs a whole study; test_replay.py reads the recorded one
    shutil.copy(DATA / "released_curves.csv", data)
    rows = "mi-lb,0,100,900.0,0.9\nmi-lb,0,150,300.0,0.7\n"
    (data / f"{NAME}.csv").write_text("# made up\nstrategy,seed,n,nll_mean,saturated_share\n" + rows)
    rows = "milb,ternary,mi-lb,,0,100,3.0\nmilb,ternary,mi-lb,,0,115,2.5\npaper,ternary,mi-lb,,mean,550,2.0\n"
    rows += "milb,double_well,mi-lb,,0,100,30\nmilb,double_well,mi-lb,,0,150,20\n"
    (data / "learning_curves.csv").write_text("source,benchmark,strategy,options,seed,n,test_nll\n" + rows)
    (data / "paper_tables.csv").write_text("benchmark,strategy,n,mean,std,min,max\nternary,mi-lb,550,2.0,0.1,1.9,2.1\n")
    return tmp_path


def drawn(home):
    return {file.name: file.read_bytes() for file in (home / "figures").iterdir() if file.is_file()}


def test_draws_every_figure_with_the_same_bytes_each_time(home, capsys, monkeypatch):
    main([])
    assert capsys.readouterr().out == "".join(f"{name}: drawn\n" for name in FIGURES)
    first = drawn(home)
    assert sorted(first) == sorted(f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "png"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    main([])
    assert drawn(home) == first


@pytest.mark.parametrize(
    ("missing", "skipped"),
    [
        (NAME, [NAME]),
        ("released_curves", [NAME]),
        ("learning_curves", ["07_learning_curves", "07_final_errors", "07_double_well_to_the_end"]),
        ("paper_tables", ["07_final_errors", "07_double_well_to_the_end"]),
    ],
)
def test_skips_what_has_no_data(home, capsys, missing, skipped):
    (home / "figures" / "data" / f"{missing}.csv").unlink()
    main([])
    why = f"skipped, {Path('figures', 'data', missing)}.csv is not there"
    said = capsys.readouterr().out.splitlines()
    assert said == [f"{name}: {why if name in skipped else 'drawn'}" for name in FIGURES]
    assert not any(file.startswith(tuple(skipped)) for file in drawn(home))


def test_data_that_make_no_sense_are_an_error(home):
    (home / "figures" / "data" / f"{NAME}.csv").write_text("strategy,seed\nmi-lb,0\n")
    with pytest.raises(ValueError, match="it lacks n, nll_mean"):
        main([])
