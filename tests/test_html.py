"""Pages of executed notebooks need no network."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from milb import html

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
TEXT = r"""# Title

Let $a_1 < b$ and $\mathbb{E}[Y]$:

$$\mathrm{gap}(x) = \sum_m b_m \log\Bigl(1 + \frac{b_n}{b_m}\Bigr) \ge 0 .$$

| symbol | meaning |
|---|---|
| $\alpha_i$ | a weight |

`$HOME` stays code."""


@pytest.fixture
def notebook():
    outputs = [
        new_output(
            "display_data", {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/plain": "Box()"}
        ),
        new_output("display_data", {"image/png": PIXEL, "text/plain": "<Image>"}),
        new_output("stream", text="printed\n"),
    ]
    return new_notebook(cells=[new_markdown_cell(TEXT), new_code_cell("plots.explore(draw)", outputs=outputs)])


def test_page_loads_nothing(notebook):
    page = BeautifulSoup(html.page(notebook, "01_title"), "html.parser")
    assert not page.find_all(["script", "link", "iframe", "object", "embed"])
    assert all(image["src"].startswith("data:") for image in page.find_all("img"))
    styles = " ".join(style.text for style in page.find_all("style"))
    assert len(styles) > 10_000
    assert not re.search(r"@import|url\((?!['\"]?(data:|#))", styles)


def test_page_has_text_formulas_code_and_outputs_but_no_widget(notebook):
    page = BeautifulSoup(html.page(notebook, "01_title"), "html.parser")
    assert page.title.text == "01_title"
    assert [formula["display"] for formula in page.find_all("math")] == ["inline", "inline", "block", "inline"]
    assert page.find("td").find("math").text == "αi"
    assert "$HOME" in page.text and "\\mathbb" not in page.text
    assert "plots.explore(draw)" in page.text and "printed" in page.text
    assert len(page.find_all("img")) == 1 and "Box()" not in page.text


def test_a_formula_that_cannot_be_converted_is_shown_as_it_was_written():
    assert html.math_ml(r"\frac{1}{", "inline") == r"<code>$\frac{1}{$</code>"


def test_command_writes_a_page_for_each_notebook(notebook, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    with pytest.raises(SystemExit, match="2"):
        html.main([])
    assert "no executed notebooks" in capsys.readouterr().err
    folder = tmp_path / "runs" / "notebooks"
    folder.mkdir(parents=True)
    for name in ("01_one", "02_two"):
        nbformat.write(notebook, folder / f"{name}.ipynb")
    html.main([])
    assert sorted(path.name for path in (tmp_path / "runs" / "html").iterdir()) == ["01_one.html", "02_two.html"]
    assert "<math" in (tmp_path / "runs" / "html" / "02_two.html").read_text(encoding="utf-8")
