"""The repository's own promises: one list of dependencies, a quiet import, imports that run downwards."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[1]
MODULES = sorted((CHECKOUT / "milb").rglob("*.py"))

# Each module may import those before it; what only notebooks and commands use stands apart.
LAYERS = (
    "protocol",
    "paths",
    "devices",
    "side_by_side",
    "mixture",
    "linalg",
    "full_mixture",
    "bounds",
    "mdn",
    "clipping",
    "checks",
    "training",
    "acquisition",
    "scoring",
    "selection",
    "strategy",
    "history",
    "store",
    "run_state",
    "learner",
    "tables",
    "ask_tell",
    "ask_command",
    "ablation",
    "problems",
    "study",
    "two_index",
    "notebooks",
)
IMPORTED_BY_NOBODY = ("plots", "html", "__main__")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def conda():
    return yaml.safe_load((CHECKOUT / "environment.yml").read_text(encoding="utf-8"))


def package(requirement: str) -> str:
    """The normalised name in front of extras and versions."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement).group()).lower()


def test_conda_installs_python_and_pip_and_leaves_the_rest_to_pyproject(conda, project):
    python, pip, from_pip = conda["dependencies"]
    assert python == f"python{project['requires-python']}"
    assert pip == "pip"
    assert list(from_pip) == ["pip"]
    (requirement,) = from_pip["pip"]
    extras = re.fullmatch(r"-e \.\[([\w,]+)\]", requirement).group(1).split(",")
    assert set(extras) == {"notebooks", "test"} <= set(project["optional-dependencies"])


def test_conda_and_pyproject_share_the_name(conda, project):
    assert conda["name"] == project["name"] == "milb"


def test_each_dependency_is_listed_once(project):
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    names = [package(requirement) for requirements in lists for requirement in requirements]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated == {"jax"}, "jax alone stands twice: by itself and with its CUDA extra"
    assert project["optional-dependencies"]["cuda"] == ["jax[cuda13]"]


def test_version_stands_alike_in_all_places(project):
    import milb

    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text(encoding="utf-8"))
    assert milb.__version__ == project["version"] == citation["version"]
    assert citation["license"] == project["license"]


def run_in_a_new_process(code: str, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        cwd=CHECKOUT,
        env=os.environ | environment,
    )
    assert finished.stderr == ""
    return finished.stdout


IMPORT_ALL = "; ".join(
    f"import {'.'.join(path.relative_to(CHECKOUT).with_suffix('').parts).removesuffix('.__init__')}"
    for path in MODULES
    if path.name != "__main__.py" and "plots" not in path.parts
)


def test_importing_touches_no_device_and_prints_nothing():
    assert run_in_a_new_process(IMPORT_ALL, JAX_PLATFORMS="nonsense") == ""


def test_importing_needs_no_extra():
    extras = "beartype pytest hypothesis matplotlib IPython ipykernel ipywidgets nbclient nbformat papermill diffrax"
    code = f"{IMPORT_ALL}; import sys; print(*sorted(set({extras.split()!r}) & set(sys.modules)))"
    assert run_in_a_new_process(code).split() == []


def imported_layers(path: Path) -> set[str]:
    """The modules of milb that a file imports, wherever in the file the import stands."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("milb.")}


def layer(path: Path) -> str:
    return path.relative_to(CHECKOUT / "milb").with_suffix("").parts[0]


def test_every_module_has_its_layer():
    unknown = {layer(path) for path in MODULES} - {"__init__", *LAYERS, *IMPORTED_BY_NOBODY}
    assert not unknown, "add them to LAYERS where DESIGN has them"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_imports_run_downwards(path):
    own = layer(path)
    below = LAYERS[: LAYERS.index(own)] if own in LAYERS else LAYERS
    assert imported_layers(path) <= {own, *below}


def test_simulators_know_nothing_of_networks_nor_bounds_of_ensembles():
    allowed = {"protocol", "paths", "devices", "linalg", "mixture", "full_mixture"}
    for path in MODULES:
        if layer(path) in ("problems", "bounds"):
            assert imported_layers(path) <= {layer(path), *allowed}, path


def test_every_name_in_the_symbol_table_exists():
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    table = re.search(r"^\| paper \| meaning \| code \|\n\|[-:| ]+\|\n((?:\|.*\|\n?)+)", readme, re.MULTILINE)
    assert table, "README.md has no table headed | paper | meaning | code |"
    for row in table.group(1).splitlines():
        names = re.findall(r"`(milb[\w.]*)`", row.rsplit("|", 2)[1])
        assert names, f"no code name in the row {row}"
        for name in names:
            resolve(name)


def resolve(name: str) -> object:
    """The object at a dotted path through modules, classes and dataclass fields."""
    thing, path = importlib.import_module("milb"), "milb"
    for part in name.split(".")[1:]:
        path += f".{part}"
        if hasattr(thing, part):
            thing = getattr(thing, part)
        elif part in getattr(thing, "__annotations__", {}):
            thing = thing.__annotations__[part]
        else:
            thing = importlib.import_module(path)
    return thing
