"""One input of the coupled double-well, live: what happens there, what an ensemble expects, what a label is worth.

All particles start at the same position; the middle one of the chain is shown.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from milb import acquisition
from milb.mdn import Ensemble, predict
from milb.mixture import Mixture, PRNGKey
from milb.plots.double_well import mark_wells
from milb.plots.layout import few_ticks, placed_by_hand
from milb.plots.style import GUIDE, figure, strategy_style
from milb.problems.double_well import N_PARTICLES, N_STEPS, SIGMA_RANGE, TIME_STEP, trajectories
from milb.protocol import Options

MIDDLE = N_PARTICLES // 2  # the particle that is shown
EVERY = 25  # steps between recorded positions
LIMIT = 2.5  # positions are shown in -LIMIT .. LIMIT
_SHOWN = 30  # trajectories that are drawn; the histogram has all
_TRUTH, _MODEL, _MARGINAL = "#777777", "#56B4E9", "#0072B2"


class OneInput(NamedTuple):
    """What `evaluate` finds; positions are those of the middle particle."""

    paths: Float[Array, "n t"]  # simulated, from t = 0 on, every EVERY steps
    grid: Float[Array, "g"]  # positions at which densities are given
    members: Float[Array, "E g"]  # each member's density of the final position
    sigma: Float[Array, "s"]  # noise intensities around the input's, all else as in the input
    mi_lower_bound: Float[Array, "s"]  # nats
    certificate: Float[Array, "s"]  # nats
    variance: Float[Array, "s"]  # of the members' means, over all 20 outputs
    at: Float[Array, "3"]  # the last three, at the input itself


@partial(jax.jit, static_argnames=("n_paths", "n_sigma"))
def evaluate(
    key: PRNGKey,
    ensemble: Ensemble,
    q0: float | Float[Array, ""],
    sigma: float | Float[Array, ""],
    kappa: float | Float[Array, ""],
    n_paths: int = 120,
    n_sigma: int = 35,
) -> OneInput:
    """Simulate, predict and score x = (q0, q0, q0, q0, q0, sigma, kappa); compiled once, whatever the input.

    Args:
        key: of the simulator's noise; the same key shakes all inputs alike.
        ensemble: trained on the double-well.
        q0, sigma, kappa: the start of every particle, noise intensity, coupling.
        n_paths, n_sigma: trajectories, and noise intensities at which the scores are evaluated.
    """
    start = jnp.full((n_paths, N_PARTICLES), q0)
    keys = jax.random.split(key, n_paths)
    q = trajectories(keys, start, jnp.full(n_paths, sigma), jnp.full(n_paths, kappa), record_every=EVERY)
    paths = jnp.concatenate([start[:, None, MIDDLE], q[:, :, MIDDLE]], axis=1)
    sigmas = jnp.append(jnp.linspace(*SIGMA_RANGE, n_sigma), sigma)
    x = jnp.stack([*[jnp.full_like(sigmas, q0)] * N_PARTICLES, sigmas, jnp.full_like(sigmas, kappa)], axis=1)
    keys = jax.random.split(key, len(x))
    bound, certificate, variance = (
        score(keys, ensemble, x, Options())
        for score in (acquisition.mi_lower_bound, acquisition.mi_certificate, acquisition.epistemic_variance)
    )
    members, output = predict(ensemble, x[-1:]), MIDDLE - N_PARTICLES  # in the last snapshot
    position = Mixture(members.log_weights, members.means[..., output, None], members.variances[..., output, None])
    grid = jnp.linspace(-LIMIT, LIMIT, 201)
    density = jnp.exp(jax.vmap(position.log_prob)(grid[:, None, None])[:, :, 0].T)
    scores = jnp.stack([bound, certificate, variance])
    return OneInput(paths, grid, density, sigmas[:-1], *scores[:, :-1], scores[:, -1])


@figure
def draw(found: OneInput, sigma: float, largest: float) -> Figure:
    """Trajectories, the final histogram under the members' densities, and the scores along the noise intensity.

    Args:
        found: see `evaluate`.
        sigma: the input's noise intensity.
        largest: the most that MI-LB can be, in nats.
    """
    found = OneInput(*(np.asarray(leaf) for leaf in found))
    fig = placed_by_hand(8.0, 3.7)
    paths, final, bounds, variance = (fig.add_axes(place) for place in _PLACES)
    time = TIME_STEP * EVERY * np.arange(found.paths.shape[1])
    lines = [np.column_stack([time, path]) for path in found.paths[:_SHOWN]]
    paths.add_collection(LineCollection(lines, colors=_TRUTH, linewidths=0.5, alpha=0.7))
    paths.set(xlim=(0, N_STEPS * TIME_STEP), ylim=(-LIMIT, LIMIT))
    paths.set(xlabel="time t", ylabel="position, middle particle", title=f"{len(lines)} simulations")
    _draw_final(final, found)
    _draw_bounds(bounds, found, largest)
    spread = found.at[2]
    variance.plot(found.sigma, found.variance, color=strategy_style("variance")["color"])
    variance.plot(sigma, spread, "o", color="black", ms=4.5, zorder=4)
    variance.set(xlabel=r"noise intensity $\sigma$", ylabel="variance", ylim=(0, 1.15 * found.variance.max()))
    variance.set_title(f"variance of the members' means: {spread:.2g}", fontsize=8.5)
    for ax in (bounds, variance):
        ax.axvline(sigma, color="#555555", lw=0.8, zorder=1)
        ax.set_xlim(*SIGMA_RANGE)
    bounds.plot([sigma, sigma], found.at[:2], "o", color="black", ms=4.5, zorder=4)
    for ax in (paths, final, bounds, variance):
        few_ticks(ax)
    return fig


_PLACES = (0.075, 0.13, 0.295, 0.76), (0.385, 0.13, 0.19, 0.76), (0.67, 0.57, 0.31, 0.32), (0.67, 0.13, 0.31, 0.28)


def _draw_final(ax: Axes, found: OneInput) -> None:
    ends = np.clip(found.paths[:, -1], -LIMIT, LIMIT)  # what is outside stands at the edge
    heights, edges = np.histogram(ends, np.linspace(-LIMIT, LIMIT, 41), density=True)
    ax.stairs(heights, edges, orientation="horizontal", fill=True, color="#cccccc", label="simulator")
    for i, member in enumerate(found.members):
        ax.plot(member, found.grid, color=_MODEL, lw=0.9, label=None if i else "a member")
    ax.plot(found.members.mean(axis=0), found.grid, color=_MARGINAL, lw=1.8, label="ensemble")
    mark_wells(ax.axhline)
    ax.set(ylim=(-LIMIT, LIMIT), xlim=(0, None), xlabel="density", title="at t = 5")
    ax.tick_params(labelleft=False)
    ax.legend(fontsize=7, handlelength=1.4, loc="upper right")
    ax.grid(visible=False)


def _draw_bounds(ax: Axes, found: OneInput, largest: float) -> None:
    ax.axhline(largest, **GUIDE, label="largest MI-LB")
    ax.plot(found.sigma, found.certificate, color="#117733", label="certificate")
    ax.plot(found.sigma, found.mi_lower_bound, color=strategy_style("mi-lb")["color"], label="MI-LB")
    bound, certificate, _ = found.at
    ax.set(ylabel="nats", ylim=(min(found.mi_lower_bound.min(), largest) - 0.3, np.log(len(found.members)) + 0.2))
    ax.set_title(f"certificate {certificate:.2f}, MI-LB {bound:.2f} nats", fontsize=8.5)
    ax.tick_params(labelbottom=False)
    looks = {"frameon": True, "facecolor": "white", "edgecolor": "none", "framealpha": 0.9}  # over the line at sigma
    ax.legend(fontsize=7, handlelength=1.4, loc="center left", bbox_to_anchor=(0.0, 0.55), **looks)
