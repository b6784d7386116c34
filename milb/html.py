"""One HTML page for every executed notebook, readable without a network.

    python -m milb.html [NOTEBOOK ...]   default: all in runs/notebooks/; pages go to runs/html/

A page has no scripts and loads nothing: pictures are in it, formulas are MathML, which browsers draw themselves.
Explorers stand still in it, as the pictures that they were when the notebook was run.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from milb import paths
from milb.notebooks import WIDGET_VIEW

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Before what is no operator or bracket; browsers leave no space there: "log2".
_NAME_OF_FUNCTION = re.compile(r"(?<!<msub>)(?<!<msup>)(<mi>(?:log|exp)</mi>)(?=<(?!mo|/))")


def page(notebook: NotebookNode, title: str) -> str:
    """A notebook with its outputs as one HTML page; widgets, which need a kernel, are left out."""
    from bs4 import BeautifulSoup

    exporter = _exporter()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET_VIEW not in output.get("data", {})]
    notebook.metadata.pop("widgets", None)
    html, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": title}})
    soup = BeautifulSoup(html, "html.parser")
    for element in soup.find_all(["script", "link"]):
        element.decompose()
    return str(soup)


def math_ml(formula: str, display: str) -> str:
    """A LaTeX formula as MathML; display is "inline" or "block". One that cannot be converted stays as it is."""
    from latex2mathml.converter import convert

    try:
        return _NAME_OF_FUNCTION.sub(r'\1<mspace width="0.17em" />', convert(formula, display=display))
    except Exception:
        marks = "$" if display == "inline" else "$$"
        return f"<code>{marks}{formula}{marks}</code>"


def _exporter():
    """nbconvert's, but for formulas; made here, since only this function needs nbconvert."""
    from nbconvert import HTMLExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        def inline_math(self, body: str) -> str:
            return math_ml(body, "inline")

        def block_math(self, body: str) -> str:
            return math_ml(body, "block")

    class Exporter(HTMLExporter):
        def markdown2html(self, source: str) -> str:
            return MarkdownWithMath(renderer=Renderer(escape=False, exclude_anchor_links=True)).render(source)

    return Exporter()


def write(path: Path) -> Path:
    """The page of a notebook file, in runs/html; its path."""
    import nbformat

    target = paths.writable(paths.runs() / "html") / f"{path.stem}.html"
    target.write_text(page(nbformat.read(path, as_version=4), path.stem), encoding="utf-8")
    return target


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m milb.html", description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="executed ones; default: all in runs/notebooks/")
    notebooks = parser.parse_args(arguments).notebooks or sorted((paths.runs() / "notebooks").glob("*.ipynb"))
    if not notebooks:
        parser.error("no executed notebooks in runs/notebooks/; run `make notebooks`, or name some")
    for path in notebooks:
        print(os.path.relpath(write(path)), flush=True)


if __name__ == "__main__":
    main()
