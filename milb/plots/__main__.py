"""`python -m milb.plots`: draw every file of figures/ from the tables in figures/data, and from nothing else.

The same tables give the same bytes. A figure whose tables are not there is skipped, and its old files stay.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from milb import paths
from milb.plots import curves, replay, save, study

DOUBLE_WELL_SEED_0 = "05_double_well_paper_seed0"
RELEASED = "released_curves"


def double_well_seed_0(data: Path) -> Figure:
    """The paper's protocol on the double-well, seed 0, beside the released code's curves."""
    recorded = curves.read_recorded(data / f"{DOUBLE_WELL_SEED_0}.csv")
    released = curves.read_recorded(data / f"{RELEASED}.csv").table
    released = released[released["benchmark"] == "double_well"]
    return curves.against_released(recorded.table, released, recorded.notes)


def learning_curves(data: Path) -> Figure:
    """The study's curves of the top-k strategies on the three benchmarks."""
    table = study.in_common(study.read_curves(data), study.COMPARED)
    return study.learning_curves(table, study.TOP_K, study.ORACLES)


def final_errors(data: Path) -> Figure:
    """The study's strategies at the last number of labels of those compared, beside the paper's tables."""
    paper = curves.read_recorded(data / "paper_tables.csv").table
    table = study.in_common(study.read_curves(data), study.COMPARED)
    return study.final_errors(table, paper, study.ORACLES)


def double_well_to_the_end(data: Path) -> Figure:
    """The double-well's runs that have come to the paper's last number of labels."""
    paper = curves.read_recorded(data / "paper_tables.csv").table
    return study.beyond_the_others(study.read_curves(data), paper, "double_well")


def replayed_round(data: Path) -> Figure:
    """A picture of the replay: the exact and the released ranking on the double-well, after four rounds."""
    return replay.at_round(replay.read(data, "double_well"), "mi-lb", "mi-lb-released", 4)


FIGURES: dict[str, Callable[[Path], Figure]] = {
    DOUBLE_WELL_SEED_0: double_well_seed_0,
    "07_learning_curves": learning_curves,
    "07_final_errors": final_errors,
    "07_double_well_to_the_end": double_well_to_the_end,
    "07_replay": replayed_round,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw all figures; one line for each says what became of it."""
    argparse.ArgumentParser(prog="python -m milb.plots", description=__doc__).parse_args(arguments)
    data = paths.figures_data()
    for name, draw in FIGURES.items():
        try:
            fig = draw(data)
        except FileNotFoundError as missing:
            print(f"{name}: skipped, {Path(missing.filename).relative_to(paths.root())} is not there")
            continue
        save(fig, name, "paper", folder=data.parent)
        print(f"{name}: drawn")


if __name__ == "__main__":
    main()
