"""Every explorer, in JupyterLab and a real browser: `make test-browser`. Pictures of it are left in runs/browser.

Explorers are found by themselves: each notebook that calls `plots.explore` is run at smoke scale, and every control on
the page is moved.
"""

import csv
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from milb import notebooks

CHECKOUT = Path(__file__).resolve().parents[2]
WITH_EXPLORERS = [
    path for path in sorted((CHECKOUT / "notebooks").glob("*.ipynb")) if "plots.explore(" in path.read_text("utf-8")
]
MOST_CHECKBOXES = 3  # that are ticked: all hang on the same code
SECONDS = 300  # for all cells of a notebook


def put(folder: Path, notebook: nbformat.NotebookNode, name: str) -> str:
    """Into JupyterLab's folder, without outputs: all that is seen was made in the browser."""
    notebook.metadata = nbformat.from_dict(notebooks.KERNEL_METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, folder / name)
    return name


@pytest.mark.parametrize("path", WITH_EXPLORERS, ids=[path.stem for path in WITH_EXPLORERS])
def test_every_control_changes_the_picture(path, folder, lab, tmp_path, monkeypatch):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    notebook = nbformat.read(notebooks.run(path, "smoke", prepare_only=True), as_version=4)
    calls = sum("plots.explore(" in cell.source for cell in notebook.cells if cell.cell_type == "code")
    lab.open(put(folder, notebook, path.name))
    lab.run_all(SECONDS)
    lab.wait(lambda: len(lab.explorers()) == calls, 30, f"of {calls} explorers some have no controls")
    rows = []
    for number, explorer in enumerate(lab.explorers(), start=1):
        lab.screenshot(f"{path.stem}_{number}_before") if not rows else None
        for control in some(explorer.controls):
            name, seconds = lab.assert_moves_the_picture(explorer, control)
            rows.append((path.stem, number, name, round(1e3 * seconds)))
            lab.screenshot(
                f"{path.stem}_{number}_{len(rows)}_{name.replace(' ', '_').replace('(', '').replace(')', '')}"
            )
    lab.assert_no_complaint()
    lab.close()
    with (lab.screenshots / f"{path.stem}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("notebook", "explorer", "control", "milliseconds to the new picture"), *rows])


def some(controls):
    checkboxes = [control for control in controls if "widget-checkbox" in control.get_attribute("class")]
    return [control for control in controls if control not in checkboxes[MOST_CHECKBOXES:]]


EXPLORER = """
import ipywidgets
import matplotlib.pyplot as plt
from milb import plots

@plots.figure
def draw(m):
    fig, ax = plt.subplots()
    ax.plot([0, 1], [0, m])
    return fig

slider = ipywidgets.IntSlider(3, 0, 10, description="m", continuous_update=False)
plots.explore(draw, m=slider)
"""


def test_a_disconnected_slider_is_noticed(folder, lab):
    cells = [new_code_cell(EXPLORER), new_code_cell('slider.unobserve_all("value")')]
    lab.open(put(folder, new_notebook(cells=cells), "disconnected.ipynb"))
    lab.run_all(60)
    (explorer,) = lab.explorers()
    with pytest.raises(AssertionError, match="the picture did not change: slider m"):
        lab.assert_moves_the_picture(explorer, explorer.controls[0], seconds=5)
    lab.close()
