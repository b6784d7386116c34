"""Run, refresh and guard the notebooks.

The cell after a notebook's parameters calls `check_parameters`. The rest is for the command line:

    python -m milb.notebooks run [--jobs N] SCALE [NOTEBOOK ...]  copies into runs/notebooks/, made with papermill
    python -m milb.notebooks prepare SCALE [NOTEBOOK ...]         the same copies, not yet executed
    python -m milb.notebooks refresh [NOTEBOOK ...]               the committed notebooks, in place

SCALE is smoke, demo or paper; `--jobs N` runs so many at a time, each on its share of the cores.

Jupyter's libraries are imported only by the functions that need them.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from milb import paths
from milb.protocol import SCALES, check_scale
from milb.side_by_side import side_by_side

if TYPE_CHECKING:
    from nbformat import NotebookNode

CHECKOUT = Path(__file__).resolve().parents[1]
MAX_BYTES = 1_000_000

KERNEL_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
SMOKE = {"strategies": "random,variance,mi-lb", "n_seeds": 1}  # at smoke scale, of a notebook's parameters those it has
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
INJECTED_HEADER = "# Parameters\n"  # how papermill begins the cell it injects: all that the kernel sees of it


def check_parameters(namespace: Mapping[str, Any], *known: str) -> None:
    """Refuse a notebook parameter that the notebook does not have: papermill only logs it.

    The injected names are read from IPython's history, so the cell may be run again after the rest of the notebook.

    Args:
        namespace: the notebook's `globals()`.
        known: the names that its parameters cell assigns.

    Raises:
        ValueError: an injected name is unknown, a known name is not assigned, or the scale is not one of
            `milb.protocol.SCALES`.
    """
    allowed = ", ".join(known) or "none"
    unknown = sorted(_injected_names(namespace) - set(known))
    if unknown:
        raise ValueError(f"unknown notebook parameter: {', '.join(unknown)}; allowed: {allowed}")
    missing = [name for name in known if name not in namespace]
    if missing:
        raise ValueError(f"notebook parameter not assigned: {', '.join(missing)}; the parameters are: {allowed}")
    if "scale" in known:
        check_scale(namespace["scale"])


def _injected_names(namespace: Mapping[str, Any]) -> set[str]:
    injected = [source for source in namespace.get("In", []) if source.startswith(INJECTED_HEADER)]
    return set(assigned_names(injected[-1])) if injected else set()


def assigned_names(source: str) -> list[str]:
    """The names which the top-level statements `name = …` and `name: type = …` of a cell assign, in order."""
    names = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            targets = [statement.target] if isinstance(statement, ast.AnnAssign) else []
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return names


def run(path: Path, scale: str, prepare_only: bool = False) -> Path:
    """Execute a copy of a notebook with papermill, or only make it.

    Args:
        path: the notebook.
        scale: "demo" writes to runs/notebooks/, any other scale to a folder of its own in there. At "smoke", where
            compiling a strategy takes longer than running it, the copy has few: see `SMOKE`.
        prepare_only: leave executing it to somebody else, such as nbval.

    Returns:
        The path of the copy, which holds the traceback where a cell failed.

    Raises:
        papermill.PapermillExecutionError: a cell failed.
    """
    import papermill

    folder = paths.runs() / "notebooks"
    copy = paths.writable(folder if scale == "demo" else folder / scale) / path.name
    known = papermill.inspect_notebook(str(path)) if scale == "smoke" else {}
    papermill.execute_notebook(
        str(path.resolve()),
        str(copy),
        parameters={"scale": scale} | {name: SMOKE[name] for name in SMOKE if name in known},
        cwd=str(CHECKOUT),
        kernel_name="python3",
        progress_bar=False,
        prepare_only=prepare_only,
    )
    return copy


def refresh(path: Path) -> None:
    """Execute a notebook in place and tidy it; the file stays as it was if anything fails.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
        ValueError: see `serialise`.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(CHECKOUT)}},
    ).execute()
    tidy(notebook)
    if len(nbformat.writes(notebook)) > MAX_BYTES:
        shrink_pictures(notebook)
    text = serialise(notebook, name=path.name)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def tidy(notebook: NotebookNode) -> None:
    """Strip, in place, what differs between two runs or two machines.

    That is widget state and widgets (a saved notebook cannot render them), papermill's metadata, timestamps, what
    went to stderr (progress bars and logs), and the Python version.
    """
    from nbformat import from_dict

    notebook.metadata = from_dict(KERNEL_METADATA)
    for cell in notebook.cells:
        for volatile in ("execution", "papermill"):
            cell.metadata.pop(volatile, None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_volatile(output)]


def _is_volatile(output: NotebookNode) -> bool:
    return output.get("name") == "stderr" or WIDGET_VIEW in output.get("data", {})


def shrink_pictures(notebook: NotebookNode) -> None:
    """Re-encode, in place, opaque PNG outputs with 256 colours: a third of the bytes, and coarser shades."""
    from PIL import Image

    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            encoded = output.get("data", {}).get("image/png")
            if encoded is None:
                continue
            picture = Image.open(io.BytesIO(base64.b64decode(encoded)))
            opaque = picture.mode == "RGB" or (picture.mode == "RGBA" and picture.getextrema()[3] == (255, 255))
            if opaque:
                file = io.BytesIO()
                small = picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
                small.save(file, "png", optimize=True)
                output["data"]["image/png"] = base64.b64encode(file.getvalue()).decode()


def serialise(notebook: NotebookNode, name: str) -> str:
    """The notebook as the text of its file.

    Raises:
        ValueError: it is above `MAX_BYTES`, or it shows where this checkout lies on this machine.
    """
    import nbformat

    text = nbformat.writes(notebook) + "\n"
    n_bytes = len(text.encode())
    if n_bytes > MAX_BYTES:
        raise ValueError(f"{name} has {n_bytes:,} bytes; allowed: {MAX_BYTES:,}. Show smaller or fewer figures")
    if json.dumps(f"{CHECKOUT}{os.sep}")[1:-1] in text:
        raise ValueError(f"{name} shows this machine's folder {CHECKOUT}; show paths relative to it")
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m milb.notebooks", description="Run or refresh the notebooks.")
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="execute copies into runs/notebooks/")
    prepare_parser = commands.add_parser("prepare", help="make the copies and leave executing them to others")
    for command in (run_parser, prepare_parser):
        command.add_argument("scale", choices=SCALES)
    run_parser.add_argument("--jobs", type=int, default=1, help="so many at a time, each on its share of the cores")
    refresh_parser = commands.add_parser("refresh", help="execute and tidy the committed notebooks in place")
    for command in (run_parser, prepare_parser, refresh_parser):
        command.add_argument("notebooks", nargs="*", type=Path, help="default: all in notebooks/")
    options = parser.parse_args(arguments)

    notebooks = options.notebooks or sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
    if not notebooks:
        parser.error(f"found no notebooks in {CHECKOUT / 'notebooks'}; name them")
    missing = [str(path) for path in notebooks if not path.is_file()]
    if missing:
        parser.error(f"no such notebook: {', '.join(missing)}")
    if os.environ.get("MILB_HOME"):
        os.environ["MILB_HOME"] = str(paths.root())  # kernels run in another folder
    names = [path.name for path in notebooks]
    twice = sorted({name for name in names if names.count(name) > 1})
    if options.command != "refresh" and twice:
        parser.error(f"copies would overwrite each other: {', '.join(twice)}")
    if options.command == "run" and options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    if options.command == "run" and len(notebooks) > 1:
        alone = [sys.executable, "-m", "milb.notebooks", "run", options.scale]
        statuses = side_by_side([[*alone, str(path.resolve())] for path in notebooks], options.jobs)
        failed = [path.name for path, status in zip(notebooks, statuses, strict=True) if status]
        if failed:
            sys.exit(f"failed: {', '.join(failed)}")
        return
    for path in notebooks:
        start = time.perf_counter()
        if options.command != "refresh":
            result = run(path, options.scale, prepare_only=options.command == "prepare")
        else:
            refresh(path)
            result = path
        print(f"{os.path.relpath(result)}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
