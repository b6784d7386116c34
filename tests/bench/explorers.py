"""How long a reader waits for a picture: `python tests/bench/explorers.py [NOTEBOOK ...]`.

Runs notebooks at smoke scale and moves every control of every explorer, in the kernel: milliseconds from a new value to
the new picture, drawn and encoded, and what is in memory after 200 moves and after 200 more (the first ones fill
caches). `make test-browser` measures the way to the screen.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]

MEASURE = """
import gc, os, resource, statistics, time
import matplotlib.pyplot as _plt
from milb import plots as _plots
from milb.plots.sliders import _encoded, _Layout
import ipywidgets.widgets.widget as _widget
from matplotlib.figure import Figure as _Figure


def _values(control, n):
    if hasattr(control, "options"):
        values = [value[1] if isinstance(value, tuple) else value for value in control._options_full]
    elif isinstance(control.value, bool):
        values = [True, False]
    else:
        values = [control.min + (control.max - control.min) * i / 7 for i in range(8)]
        values = [type(control.value)(value) for value in values]
    return [values[i % len(values)] for i in range(n)]


def _move(control, n):
    seconds = []
    for value in _values(control, n):
        if value != control.value:
            start = time.process_time(), time.perf_counter()
            control.value = value
            seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [1e3 * statistics.median(column) for column in zip(*seconds)]


def _left():
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize() / 2**20
    return sum(isinstance(thing, _Figure) for thing in gc.get_objects()), resident


@_plots.figure
def _plain():
    fig, ax = _plt.subplots()
    ax.plot([0, 1])
    return fig


def _yardstick():  # as many ms as drawing one line takes on this machine at this moment
    seconds, layout = [], _Layout()
    for _ in range(9):
        start = time.process_time(), time.perf_counter()
        _encoded(layout.drawn(_plain))
        seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [1e3 * statistics.median(column) for column in zip(*seconds)]


_controls = [w for w in list(_widget._instances.values()) if hasattr(w, "description") and hasattr(w, "value")]
_controls = [w for w in _controls if w._trait_notifiers.get("value", {}).get("change")]
_cpu, _wall = _yardstick()
print(f"| {NAME} | (a plain line) | {_wall:.0f} | {_cpu:.0f} |")
for _control in _controls:
    _cpu, _wall = _move(_control, 9)
    print(f"| {NAME} | {_control.description} | {_wall:.0f} | {_cpu:.0f} |")
if _controls:
    for _moves in (200, 400):
        _move(_controls[-1], 200)
        _figures, _mib = _left()
        print(f"| {NAME} | after {_moves} moves | {_figures} figures | {_mib:.1f} MiB |")
"""


def main() -> None:
    """All notebooks with explorers, or those named."""
    import nbformat
    from nbclient import NotebookClient
    from nbformat.v4 import new_code_cell

    from milb import notebooks

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path)
    os.environ.pop("MPLBACKEND", None)
    print("| notebook | control | ms to the new picture | of which CPU |\n|---|---|---|---|")
    for path in parser.parse_args().notebooks or sorted((CHECKOUT / "notebooks").glob("*.ipynb")):
        if "plots.explore(" not in path.read_text(encoding="utf-8"):
            continue
        notebook = nbformat.read(notebooks.run(path, "smoke", prepare_only=True), as_version=4)
        notebook.cells.append(new_code_cell(f"NAME = {path.stem[:2]!r}{MEASURE}"))
        NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
        print(*(output.get("text", "") for output in notebook.cells[-1].outputs), end="", sep="", flush=True)


if __name__ == "__main__":
    main()
