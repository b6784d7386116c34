"""The rules for committed notebooks, and `milb.notebooks`, which keeps them."""

import ast
import base64
import io
import json
import os
import re
import tokenize
from pathlib import Path

import nbformat
import papermill
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from milb import notebooks
from milb.notebooks import assigned_names, check_parameters

CHECKOUT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((CHECKOUT / "notebooks").glob("*.ipynb"))
WIDGET = {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/plain": "interactive(…)"}

STEMS = [path.stem for path in NOTEBOOKS]
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=STEMS)


def read(path: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def is_parameters(cell: nbformat.NotebookNode) -> bool:
    return "parameters" in cell.metadata.get("tags", [])


# The committed notebooks


def test_notebooks_are_numbered():
    assert NOTEBOOKS
    assert all(re.fullmatch(r"\d\d_[a-z0-9_]+\.ipynb", path.name) for path in NOTEBOOKS)


@every_notebook
def test_title_then_parameters_then_their_check(path):
    title = read(path).cells[0]
    assert title.cell_type == "markdown"
    assert title.source.startswith("# ")

    parameters, check, *others = code_cells(path)
    assert is_parameters(parameters)
    assert not any(map(is_parameters, [check, *others]))

    names = assigned_names(parameters.source)
    assert "scale" in names
    calls = [node for node in ast.walk(ast.parse(check.source)) if isinstance(node, ast.Call)]
    (call,) = [call for call in calls if ast.unparse(call.func) == "check_parameters"]
    assert ast.unparse(call.args[0]) == "globals()"
    assert [ast.literal_eval(name) for name in call.args[1:]] == names


@every_notebook
def test_parameters_are_commented_literals(path):
    source = code_cells(path)[0].source
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    for statement in ast.parse(source).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)
        assert commented & {statement.lineno - 1, statement.lineno, statement.end_lineno}, ast.unparse(statement)


@every_notebook
def test_cells_are_short(path):
    for cell in code_cells(path):
        assert len(cell.source.splitlines()) < 25, cell.source


@every_notebook
def test_no_output_widget(path):
    """papermill answers an Output widget while it waits for the kernel; now and then it then waits for ever."""
    for cell in code_cells(path):
        names = {node.attr for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Attribute)}
        names |= {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
        forbidden = names & {"Output", "interact", "interact_manual", "interactive", "interactive_output"}
        assert not forbidden, "use milb.plots.explore"


@every_notebook
def test_under_each_explorer_stands_what_to_try(path):
    cells = read(path).cells
    for cell, under in zip(cells, [*cells[1:], new_markdown_cell()], strict=True):
        if cell.cell_type == "code" and "plots.explore(" in cell.source:
            assert under.cell_type == "markdown" and "**Try this.**" in under.source, cell.source


@every_notebook
def test_first_screen_says_what_one_will_see_and_how_long_it_runs(path):
    opening = read(path).cells[0].source
    assert "?" in opening and "You will see" in opening
    assert re.search(r"(second|minute)s?\b", opening)


@every_notebook
def test_committed_as_executed_from_top_to_bottom(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(cell.outputs for cell in cells)
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]


@every_notebook
def test_committed_file_is_tidy_and_small(path):
    notebook = read(path)
    notebooks.tidy(notebook)
    assert json.loads(notebooks.serialise(notebook, path.name)) == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [NOTEBOOKS[0], *(pytest.param(path, marks=pytest.mark.exhaustive) for path in NOTEBOOKS[1:])], ids=STEMS
)
def test_unknown_parameter_is_refused(path, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError, match=r"unknown notebook parameter: scael; allowed: .*scale"):
        execute(path, tmp_path / "out.ipynb", scael="smoke")


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("folder", ["notebooks", "empty"])
def test_runs_from_any_folder(folder, tmp_path):
    """From the root, `make test` runs all of them."""
    (tmp_path / "empty").mkdir()
    cwd = {"notebooks": CHECKOUT / "notebooks", "empty": tmp_path / "empty"}[folder]
    before = set(cwd.iterdir())
    execute(NOTEBOOKS[0], tmp_path / "out.ipynb", cwd, scale="smoke")
    assert set(cwd.iterdir()) == before, "results belong into runs/ and figures/"


def execute(path: Path, copy: Path, folder: Path = CHECKOUT, **parameters):
    papermill.execute_notebook(str(path), str(copy), parameters, cwd=str(folder), progress_bar=False)


# check_parameters


INJECTED = '# Parameters\nscale = "smoke"\n'


@pytest.mark.parametrize("scale", ["smoke", "demo", "paper"])
def test_known_parameters_pass(scale):
    check_parameters({"scale": scale, "n": 3, "In": ["", INJECTED]}, "scale", "n")


def test_what_the_notebook_itself_defines_is_no_parameter():
    check_parameters({"scale": "demo", "figure": 1, "In": ["", "figure = 1"]}, "scale")


def test_only_the_last_injected_cell_counts():
    history = ["", "# Parameters\nscael = 1\n", INJECTED]
    check_parameters({"scale": "smoke", "In": history}, "scale")


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ({"scale": "demo", "In": ["", "# Parameters\nm = 3\nscael = 1\n"]}, "unknown .*: m, scael; allowed: scale"),
        ({"n": 3}, "not assigned: scale"),
        ({"scale": "large"}, "scale must be one of 'smoke', 'demo', 'paper', got 'large'"),
    ],
)
def test_wrong_parameters_are_named(namespace, message):
    with pytest.raises(ValueError, match=message):
        check_parameters(namespace, "scale")


# run and refresh, on a small notebook of their own


@pytest.fixture
def small(tmp_path):
    """A notebook with all that must not be committed."""
    cells = [
        new_markdown_cell("# Small"),
        new_code_cell('scale = "demo"  # a parameter', metadata={"tags": ["parameters"]}),
        new_code_cell("import sys\nprint(scale)\nprint('50 %', file=sys.stderr)"),
        new_code_cell(
            "1 + 1",
            metadata={"papermill": {"duration": 1}, "execution": {"iopub.status.busy": "2026-01-01"}},
            outputs=[new_output("display_data", WIDGET), new_output("stream", name="stderr", text="50 %")],
        ),
    ]
    metadata = {
        "kernelspec": {"display_name": "mine", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.11.0"},
        "papermill": {"duration": 1},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}},
    }
    path = tmp_path / "00_small.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
    return path


def test_tidy_keeps_sources_tags_and_results_only(small):
    notebook = read(small)
    notebook.cells[3].outputs.append(new_output("execute_result", {"text/plain": "2"}))
    notebooks.tidy(notebook)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert [cell.metadata for cell in notebook.cells] == [{}, {"tags": ["parameters"]}, {}, {}]
    assert [output.data for output in notebook.cells[3].outputs] == [{"text/plain": "2"}]


def test_shrunk_pictures_look_the_same(small):
    red, glass = (picture(Image.new("RGBA", (40, 30), color)) for color in ((200, 0, 0, 255), (200, 0, 0, 9)))
    notebook = read(small)
    notebook.cells[3].outputs = [new_output("display_data", {"image/png": png}) for png in (red, glass)]
    notebooks.shrink_pictures(notebook)
    shrunk, untouched = (output.data["image/png"] for output in notebook.cells[3].outputs)
    decoded = Image.open(io.BytesIO(base64.b64decode(shrunk)))
    assert decoded.mode == "P"
    assert decoded.convert("RGB").getcolors() == [(40 * 30, (200, 0, 0))]
    assert untouched == glass
    notebooks.shrink_pictures(notebook)
    assert notebook.cells[3].outputs[0].data["image/png"] == shrunk


def picture(image):
    file = io.BytesIO()
    image.save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def test_serialise_refuses_large_files_and_local_folders(monkeypatch, small):
    notebook = read(small)
    notebook.cells[0].source = f"see {CHECKOUT}/runs"
    with pytest.raises(ValueError, match=r"small\.ipynb shows this machine's folder"):
        notebooks.serialise(notebook, "small.ipynb")
    monkeypatch.setattr(notebooks, "MAX_BYTES", 10)
    with pytest.raises(ValueError, match=r"small\.ipynb has [\d,]+ bytes; allowed: 10"):
        notebooks.serialise(notebook, "small.ipynb")


@pytest.mark.slow
def test_refresh_executes_in_place_and_repeats_byte_for_byte(small, capsys):
    notebooks.main(["refresh", str(small)])
    assert re.fullmatch(r"\S*00_small\.ipynb: \d+ s\n", capsys.readouterr().out)
    cells = code_cells(small)
    assert [cell.execution_count for cell in cells] == [1, 2, 3]
    assert [[output.get("text", output.get("data")) for output in cell.outputs] for cell in cells] == [
        [],
        ["demo\n"],
        [{"text/plain": "2"}],
    ]
    before = small.read_bytes()
    notebooks.refresh(small)
    assert small.read_bytes() == before


@pytest.mark.slow
def test_refresh_leaves_the_file_alone_when_a_cell_fails(small):
    notebook = read(small)
    notebook.cells.append(new_code_cell("1 / 0"))
    nbformat.write(notebook, small)
    before = small.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebooks.refresh(small)
    assert small.read_bytes() == before
    assert [file.name for file in small.parent.iterdir()] == [small.name]


@pytest.mark.slow
def test_run_writes_a_copy_at_the_scale(monkeypatch, small, tmp_path):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    copy = notebooks.run(small, "smoke")
    assert copy == tmp_path / "runs" / "notebooks" / "smoke" / small.name
    outputs = [output.text for cell in code_cells(copy) for output in cell.outputs if output.get("name") == "stdout"]
    assert outputs == ["smoke\n"]


@pytest.mark.parametrize(("scale", "injected"), [("smoke", {"scale", "strategies", "n_seeds"}), ("demo", {"scale"})])
def test_few_strategies_at_smoke_scale_only(monkeypatch, tmp_path, scale, injected):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    copy = notebooks.run(CHECKOUT / "notebooks" / "05_coupled_double_well.ipynb", scale, prepare_only=True)
    (cell,) = [cell.source for cell in code_cells(copy) if cell.source.startswith(notebooks.INJECTED_HEADER)]
    assert set(notebooks.assigned_names(cell)) == injected


def test_a_relative_home_is_the_same_for_kernels(monkeypatch, small, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILB_HOME", "home")
    notebooks.main(["prepare", "demo", str(small)])
    assert os.environ["MILB_HOME"] == str(tmp_path / "home")


@pytest.mark.slow
def test_notebooks_side_by_side_and_those_that_failed(monkeypatch, small, tmp_path, capfd):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))
    bad = small.with_name("01_bad.ipynb")
    notebook = read(small)
    notebook.cells.append(new_code_cell("1 / 0"))
    nbformat.write(notebook, bad)
    with pytest.raises(SystemExit, match=r"^failed: 01_bad\.ipynb$"):
        notebooks.main(["run", "--jobs", "2", "demo", str(bad), str(small)])
    assert re.search(r"00_small\.ipynb: \d+ s\n", capfd.readouterr().out)
    assert (tmp_path / "runs" / "notebooks" / small.name).is_file()


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["run"],
        ["run", "large"],
        ["draw"],
        ["run", "--jobs", "0", "demo"],
        ["run", "demo", "a/1.ipynb", "b/1.ipynb"],
        ["run", "demo", "missing.ipynb"],
        ["refresh", "notebooks"],
    ],
)
def test_wrong_commands_are_refused(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        notebooks.main(arguments)
    assert "usage: python -m milb.notebooks" in capsys.readouterr().err
