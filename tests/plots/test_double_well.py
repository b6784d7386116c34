"""What the figures of the double-well show is what they were given."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose

from milb import plots
from milb.plots import STRATEGY_STYLES, strategy_style
from milb.plots import double_well as figures

RANDOM = np.random.default_rng(0)
NAMES = ("random", "mi-lb")


def titles(fig):
    return [ax.get_title(loc="left") for ax in fig.axes]


def test_escape():
    positions = {0.3: RANDOM.normal(-1, 0.2, 500), 1.5: RANDOM.normal(0, 1, 300)}
    grid = np.linspace(-3, 3, 61)
    equilibrium = {0.3: np.full(61, 0.1), 1.5: np.full(61, 0.2)}
    fig = plots.double_well.escape(positions, -0.5, grid, equilibrium)
    assert titles(fig) == [r"$\sigma$ = 0.3", r"$\sigma$ = 1.5"]
    for ax, density in zip(fig.axes, equilibrium.values(), strict=True):
        assert_allclose(ax.lines[0].get_ydata(), density)
        assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1)
        assert [line.get_xdata()[0] for line in ax.lines[1:]] == [-0.5, -1, 1]
        assert ax.get_xlabel() == "final position $q(T)$"
    assert fig.axes[0].get_ylabel() == "density"


def test_escape_of_a_single_noise():
    fig = figures.escape({1.0: np.zeros(5)}, -0.5, np.linspace(-3, 3, 7), {1.0: np.ones(7)})
    assert len(fig.axes) == 1


def test_trajectories():
    time = np.linspace(0, 5, 11)
    positions = {"weak": RANDOM.normal(size=(11, 3)), "strong": RANDOM.normal(size=(11, 3))}
    fig = figures.trajectories(time, positions, (2.5, 5.0))
    assert titles(fig) == ["weak", "strong"]
    for ax, q in zip(fig.axes, positions.values(), strict=True):
        assert_allclose(np.stack([line.get_ydata() for line in ax.lines[-3:]], 1), q)
        assert [line.get_xdata()[0] for line in ax.lines[2:4]] == [2.5, 5.0]
        assert ax.get_xlabel() == "time t"
    assert fig.axes[0].get_ylabel() == "position"


def test_where_labelled():
    pool = RANDOM.uniform([0.3, 0], [2, 3], (3_000, 2))
    picked = {name: RANDOM.uniform([0.3, 0], [2, 3], (n, 2)) for name, n in zip(NAMES, (40, 60), strict=True)}
    fig = figures.where_labelled(pool, picked, {"random": "41 %", "mi-lb": "28 %"})
    assert titles(fig)[:2] == ["Random\n41 %", "MI-LB\n28 %"]
    for above, (name, points) in zip(fig.axes, picked.items(), strict=False):
        grey, colored = above.collections
        assert len(grey.get_offsets()) == 2_000
        assert_allclose(colored.get_offsets(), points)
        assert colored.get_rasterized()
        assert tuple(colored.get_facecolor()[0][:3]) == to_rgb(strategy_style(name)["color"])
    assert (fig.axes[0].get_ylabel(), fig.axes[2].get_ylabel()) == (r"coupling $\kappa$", "density")
    assert fig.axes[3].get_xlabel() == r"noise intensity $\sigma$"


def test_final_positions():
    sources = ("simulator", *NAMES)
    samples = {title: {source: RANDOM.normal(size=(20, 2)) / 2 for source in sources} for title in ("low", "high")}
    samples["high"]["mi-lb"][:3] = [[9, 0], [0, -9], [-4, 4]]
    fig = figures.final_positions(samples)
    assert titles(fig)[:3] == ["Simulator", "Random", "MI-LB"]
    assert [ax.get_ylabel() for ax in fig.axes[::3]] == ["low\n$q_2(T)$", "high\n$q_2(T)$"]
    shown = [ax.collections[0].get_offsets() for ax in fig.axes]
    assert_allclose(shown, [q for by_source in samples.values() for q in by_source.values()])
    assert [text.get_text() for ax in fig.axes for text in ax.texts] == ["3 of 20 outside"]
    assert fig.axes[-1].get_xlabel() == "$q_1(T)$"


def test_where_many_strategies_labelled_is_in_rows_of_five():
    pool = RANDOM.uniform([0.3, 0], [2, 3], (50, 2))
    fig = figures.where_labelled(pool, dict.fromkeys(STRATEGY_STYLES, pool), dict.fromkeys(STRATEGY_STYLES, ""))
    assert [title for title in titles(fig) if title] == [style["label"] for style in STRATEGY_STYLES.values()]
    assert [ax.get_ylabel() for ax in fig.axes[::5]] == [r"coupling $\kappa$", "density"] * 3


def test_head_samples():
    fig = figures.head_samples({"simulator": np.zeros((4, 2)), "K = 1": np.full((3, 2), 5.0)})
    assert titles(fig) == ["simulator", "K = 1"]
    assert [text.get_text() for text in fig.axes[1].texts] == ["3 of 3 outside"]
    assert (fig.axes[0].get_xlabel(), fig.axes[0].get_ylabel()) == ("$q_1(T)$", "$q_2(T)$")


def test_error_against_noise():
    sigma = {name: np.linspace(0.3, 2, 80) for name in NAMES}
    nll = {"random": np.full(80, 100.0), "mi-lb": np.where(np.arange(80) < 10, 1e4, -20.0)}
    fig = figures.error_against_noise(sigma, nll, {"random": "mean 100", "mi-lb": "mean"})
    assert titles(fig) == ["Random\nmean 100", "MI-LB\nmean"]
    random, mi_lb = (ax.patches[0].get_data() for ax in fig.axes)
    assert_allclose(random.values, 100)
    assert_allclose(mi_lb.values, [1e4] + [-20] * 7)
    assert_allclose(mi_lb.edges[[0, -1]], [0.3, 2])
    assert_allclose(fig.axes[1].collections[0].get_offsets(), np.stack([sigma["mi-lb"], nll["mi-lb"]], 1))
    assert fig.axes[0].get_ylim()[0] < -20
    assert fig.axes[0].get_ylabel() == "NLL of a test point (nats)"


def test_no_scatter_has_more_than_5000_points():
    many = RANDOM.uniform([0.3, 0], [2, 3], (12_345, 2))
    sigma, nll = {"random": many[:, 0]}, {"random": many[:, 1]}
    for fig in (
        figures.where_labelled(many, {"random": many}, {"random": ""}),
        figures.final_positions({"": {"simulator": many}}),
        figures.error_against_noise(sigma, nll, {"random": ""}),
    ):
        scatters = [scatter for ax in fig.axes for scatter in ax.collections]
        assert scatters and all(scatter.get_rasterized() for scatter in scatters)
        assert all(len(scatter.get_offsets()) <= 5_000 for scatter in scatters)
