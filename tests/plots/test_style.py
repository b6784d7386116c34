"""The look of strategies, and figures as files."""

import os
import subprocess
import sys

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import is_color_like

from milb import paths, plots
from milb.plots import STRATEGY_STYLES, strategy_style
from milb.plots.style import STYLE_SHEET

STRATEGIES = [
    "random", "variance", "variance-sbal", "mi-lb", "mi-lb-released", "mi-lb-ties", "mi-lb-sbal", "mi-lb-maxdist",
    "bait", "core-set", "mi-pairwise", "mi-matched",
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("MILB_HOME", str(tmp_path))


@plots.figure
def line():
    fig, ax = plt.subplots()
    ax.plot([0, 1], [1, 0], **strategy_style("mi-lb"))
    ax.legend()
    return fig


def test_every_strategy_has_a_colour_a_marker_and_a_label_of_its_own():
    assert list(STRATEGY_STYLES) == STRATEGIES
    for part in ("label", "color", "marker"):
        assert len({style[part] for style in STRATEGY_STYLES.values()}) == len(STRATEGIES)
    assert all(is_color_like(style["color"]) for style in STRATEGY_STYLES.values())


def test_colours_differ_in_lightness_or_hue_for_colour_blind_readers():
    # Viénot, Brettel and Mollon's projections for protanopia and deuteranopia, on linear RGB.
    protan = [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]
    deutan = [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]
    main = ["random", "variance", "mi-lb", "mi-lb-released", "bait", "core-set"]
    for projection in (protan, deutan):
        seen = [perceived(STRATEGY_STYLES[name]["color"], projection) for name in main]
        distances = [sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) ** 0.5 for p in seen for q in seen if p != q]
        assert len(distances) == 30
        assert min(distances) > 0.12


def perceived(color, projection):
    linear = [channel**2.2 for channel in matplotlib.colors.to_rgb(color)]
    return [max(0.0, sum(w * c for w, c in zip(row, linear, strict=True))) ** (1 / 2.2) for row in projection]


def test_unknown_strategy_gets_a_style_of_its_own_that_stays():
    style = strategy_style("mine")
    assert style["label"] == "mine"
    assert style == strategy_style("mine")
    assert style["color"] not in {known["color"] for known in STRATEGY_STYLES.values()}
    assert len({strategy_style(f"mine {i}")["color"] for i in range(30)}) > 3
    line().axes[0].plot([0, 1], **style)


def test_changing_a_style_changes_nobody_elses():
    strategy_style("random")["color"] = "red"
    assert strategy_style("random")["color"] != "red"


def test_style_applies_inside_only_and_nothing_stays_open():
    before = dict(matplotlib.rcParams)
    fig = line()
    assert not fig.axes[0].spines["top"].get_visible()
    assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


def test_reader_s_own_settings_do_not_leak_in():
    with matplotlib.rc_context({"lines.linewidth": 9.0, "axes.facecolor": "black"}):
        ax = line().axes[0]
    assert ax.lines[0].get_linewidth() < 3
    assert ax.get_facecolor() == (1, 1, 1, 1)


def test_save_writes_pdf_and_png_of_the_same_bytes_each_time(monkeypatch):
    plots.save(line(), "01_line", "demo")
    folder = paths.figures("demo")
    assert sorted(file.name for file in folder.iterdir()) == ["01_line.pdf", "01_line.png"]
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # any other date
    plots.save(line(), "01_line", "demo")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first
    assert first["01_line.pdf"].startswith(b"%PDF")
    for volatile in (b"Date", matplotlib.__version__.encode()):
        assert not any(volatile in content for content in first.values())


def test_save_elsewhere(tmp_path):
    plots.save(line(), "01_line", "paper", folder=tmp_path / "figures")
    assert (tmp_path / "figures" / "01_line.png").is_file()
    assert not paths.runs().exists()


@pytest.mark.parametrize("name", ["", "a/b", "../a", "01.line", "a b"])
def test_save_refuses_other_names(name):
    with pytest.raises(ValueError, match="name must consist of letters, digits, _ and -; got"):
        plots.save(line(), name, "demo")


def test_save_refuses_other_scales():
    with pytest.raises(ValueError, match="scale must be one of"):
        plots.save(line(), "01_line", "huge")


def test_save_says_what_to_do_about_a_folder_that_is_not_ours(tmp_path):
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(PermissionError, match="MILB_HOME"):
        plots.save(line(), "01_line", "demo")


def test_style_sheet_is_valid_and_travels_with_the_package():
    assert STYLE_SHEET.is_file()
    with matplotlib.rc_context(fname=STYLE_SHEET):
        assert matplotlib.rcParams["font.family"] == ["DejaVu Sans"]


def test_import_touches_no_device_and_prints_nothing():
    environment = os.environ | {"JAX_PLATFORMS": "nonsense"}
    result = subprocess.run(
        [sys.executable, "-c", "import milb.plots"], env=environment, capture_output=True, text=True
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
