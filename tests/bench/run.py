"""Time milb's kernels on this machine: `make bench`, or `python tests/bench/run.py [NAME ...]`.

Every figure is the median of several runs in one process, with minimum and maximum behind it. The machine's
single-precision matrix rate stands first: figures from two machines compare as ratios to it. Run it on an otherwise
idle machine. Each section runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import milb
from milb import Mixture, acquisition, bounds, devices, scoring, selection, study, training
from milb.checks import Data
from milb.problems import PROBLEMS
from milb.protocol import Protocol
from milb.study.training import run_by_run, together


class Size(NamedTuple):
    """A benchmark's sizes, and what the released code took on two CPU cores (SPEC 6)."""

    n_inputs: int
    n_outputs: int
    protocol: Protocol
    released_step_ms: float
    released_gap_s: float


RELEASED = {"multimodal": (7.2, 1.7), "double_well": (11.8, 9.4), "ternary": (1.35, 0.16)}
SIZES = {
    name: Size(PROBLEMS[name].n_inputs, PROBLEMS[name].n_outputs, PROBLEMS[name].protocol("paper"), *figures)
    for name, figures in RELEASED.items()
}
N_POOL = 49_900


def timed(call: Callable[[], Any], repeats: int = 5) -> list[float]:
    """Seconds of each call, after one that compiles."""
    jax.block_until_ready(call())
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - started)
    return seconds


def show(name: str, seconds: list[float], unit: str = "s", note: str = "") -> None:
    """One row of the table."""
    scale = {"s": 1, "ms": 1e3}[unit]
    low, middle, high = (scale * f(seconds) for f in (min, statistics.median, max))
    print(f"{name:44s} {middle:9.3f} {unit:2s}  ({low:.3f} .. {high:.3f})  {note}", flush=True)


def matrix_rate() -> float:
    """FLOP/s of a 2048 x 2048 float32 product on every device at once."""
    n = 2048
    a = jnp.ones((devices.mesh_for(jax.device_count()).size, n, n))
    mesh = devices.mesh_for(len(a))
    spec = jax.sharding.PartitionSpec("devices")
    product = jax.jit(jax.shard_map(lambda a: a @ a, mesh=mesh, in_specs=spec, out_specs=spec))
    return len(a) * 2 * n**3 / statistics.median(timed(lambda: product(a)))


def random_mixture(size: Size, n: int) -> Mixture:
    """Predictions of an ensemble at n points."""
    rng = np.random.default_rng(0)
    shape = (size.protocol.n_members, n, size.protocol.n_components)
    return Mixture.from_logits(
        rng.standard_normal(shape, np.float32),
        rng.standard_normal((*shape, size.n_outputs), np.float32),
        np.exp(rng.standard_normal((*shape, size.n_outputs), np.float32)),
    )


def labels(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """A buffer full of labels of no meaning."""
    rng = np.random.default_rng(0)
    n = size.protocol.n_final
    return rng.standard_normal((n, size.n_inputs), np.float32), rng.standard_normal((n, size.n_outputs), np.float32)


def step_flops(size: Size) -> float:
    """Multiplications and additions of the matrix products of one step of all members, forward and backward."""
    p = size.protocol
    heads = p.n_components * (1 + 2 * size.n_outputs)
    forward = size.n_inputs * p.width + (p.depth - 1) * p.width**2 + p.width * heads
    backward = 2 * forward - size.n_inputs * p.width  # nothing is differentiated by x
    return 2 * p.n_members * p.batch_size * (forward + backward)


def train() -> None:
    """Milliseconds a gradient step, and what its matrix products alone would take."""
    rate = matrix_rate()
    print(f"{devices.describe()}; matrix products at {rate / 1e9:.0f} GFLOP/s")
    for name, size in SIZES.items():
        x, y = labels(size)

        def fit(steps: int, x: np.ndarray = x, y: np.ndarray = y, size: Size = size) -> Any:
            protocol = size.protocol.replace(min_steps=0, steps_per_label=10, max_steps=10_000)
            return training.fit_buffer(jax.random.key(0), x, y, jnp.asarray(steps // 10), protocol)

        few, many = (1_000, 5_000) if name == "ternary" else (1_500, 3_000)
        pairs = zip(timed(lambda fit=fit, n=few: fit(n)), timed(lambda fit=fit, n=many: fit(n)), strict=True)
        steps = [(b - a) / (many - few) for a, b in pairs]
        floor = 1e3 * step_flops(size) / rate
        show(f"training step, {name}", steps, "ms", f"floor {floor:.2f} ms, released {size.released_step_ms} ms")


def lockstep() -> None:
    """Milliseconds a step and run of 12 runs in a study: all together, and one after the other."""
    for name in SIZES:
        arms = ("random", "variance", "mi-lb", "mi-lb-ties", "bait", "core-set")
        (group,) = study.grid([name], arms, (0, 1), runs_per_group=12, min_steps=20, max_steps=20, n_test=100)
        seeds, n = (2, len(arms)), group.protocol.n_final
        x, y = labels(SIZES[name])
        data = Data(*(jnp.asarray(np.stack([a] * 2)) for a in (x, y, x[:100], y[:100])))
        keys, rows = jax.random.split(jax.random.key(0), 2), jnp.broadcast_to(jnp.arange(n), (*seeds, n))
        for how in (together, run_by_run):
            seconds = timed(partial(how, keys, data, rows, jnp.asarray(n), group.protocol))
            show(f"lockstep, {name}, {how.__name__}", [s / 20 / 12 for s in seconds], "ms")


def spread_over_points(bound: Callable[[Mixture], Any], members: Mixture) -> Callable[[], Any]:
    """A call that computes a bound of mixtures which lie spread over all devices."""
    mesh = devices.mesh_for(members.means.shape[1])
    rows, out = jax.sharding.PartitionSpec(None, "devices"), jax.sharding.PartitionSpec("devices")
    spread = jax.jit(jax.shard_map(bound, mesh=mesh, in_specs=rows, out_specs=out, check_vma=False))
    members = jax.device_put(members, jax.sharding.NamedSharding(mesh, rows))
    return lambda: spread(members)


def gap() -> None:
    """Seconds for the log gap of a pool, given the mixtures."""
    for name, size in SIZES.items():
        call = spread_over_points(bounds.log_overlap_gap, random_mixture(size, N_POOL))
        before = peak_gib()
        seconds = timed(call)
        note = f"released {size.released_gap_s} s; peak memory +{peak_gib() - before:.2f} GiB"
        show(f"log gap of {N_POOL:,} points, {name}", seconds, "s", note)


def certificate() -> None:
    """Seconds for the certificate and for the pairwise score of 10,000 points, and how many times MI-LB's that is."""
    for name, size in SIZES.items():
        members = random_mixture(size, 10_000)
        calls = {
            label: spread_over_points(bound, members)
            for label, bound in (
                ("MI-LB", bounds.mi_lower_bound),
                ("certificate", bounds.mi_certificate),
                ("pairwise", bounds.mi_pairwise),
            )
        }
        seconds = {label: timed(call) for label, call in calls.items()}
        for label, times in seconds.items():
            ratio = statistics.median(times) / statistics.median(seconds["MI-LB"])
            show(f"{label} of 10,000 points, {name}", times, "s", f"{ratio:.2f} x MI-LB")


def peak_gib() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def score() -> None:
    """Predicting and scoring pools of growing size: time grows with them, memory does not."""
    size = SIZES["double_well"]
    x, y = labels(size)
    protocol = size.protocol.replace(max_steps=10)
    ensemble = training.fit(jax.random.key(0), x, y, protocol)
    rng = np.random.default_rng(0)
    for n in (50_000, 200_000, 1_000_000):
        pool = rng.standard_normal((n, size.n_inputs), np.float32)
        before = peak_gib()
        score_gap = acquisition.negative_log_overlap_gap
        started = time.perf_counter()
        jax.block_until_ready(scoring.score_pool(score_gap, jax.random.key(0), ensemble, pool))
        note = f"once, with compilation; peak memory {before:.2f} -> {peak_gib():.2f} GiB"
        show(f"predict and score {n:,} points, double_well", [time.perf_counter() - started], "s", note)


def select() -> None:
    """Seconds for 50 picks from a pool with 600 labels."""
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(N_POOL, np.float32)
    hidden, means = (rng.standard_normal((N_POOL, d), np.float32) for d in (128, 160))
    calls = {
        "top_k": lambda: selection.top_k(scores, 50),
        "sbal": lambda: selection.sbal(jax.random.key(0), scores, 50),
        "k_center, d = 128": lambda: selection.k_center(hidden, hidden[:600], 50),
        "max_dist, d = 160": lambda: selection.max_dist(scores, means, means[:600], 50),
        "lcmd, d = 128": lambda: selection.lcmd(hidden, hidden[:600], 50),
    }
    for name, call in calls.items():
        show(f"50 of {N_POOL:,}, {name}", timed(call, 3))


def bait() -> None:
    """Seconds and memory of one BAIT round at full size: N = 50,000, 600 labels, 50 picks."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((50_000, 128), np.float32)
    for n_coefficients in (80, 160):
        coefficients = rng.standard_normal((50_000, n_coefficients), np.float32)

        def call(c: np.ndarray = coefficients) -> Any:
            return selection.bait(c, features, c[:600], features[:600], 50)

        seconds = timed(call, 3)
        note = f"compiled; peak memory {peak_gib():.2f} GiB"
        show(f"BAIT, dim {128 * n_coefficients:,}", seconds, "s", note)


SECTIONS = {
    "train": train,
    "lockstep": lockstep,
    "gap": gap,
    "certificate": certificate,
    "score": score,
    "select": select,
    "bait": bait,
}


def main() -> None:
    """All sections, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="NAME", help=f"of {', '.join(SECTIONS)}; default: all")
    names = parser.parse_args().sections or list(SECTIONS)
    unknown = sorted(set(names) - set(SECTIONS))
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if len(names) == 1:
        milb.use_cpu_cores()
        SECTIONS[names[0]]()
        return
    for name in names:
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
