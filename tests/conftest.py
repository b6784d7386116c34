"""Strict settings for every test, made before milb is imported."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "agg")
# Most of a test's time is compilation: kept between calls, also for the processes that tests start.
# Programs here run once, for moments: optimising them would take longer than that.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0 "
    "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"
).strip()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.abspath(".pytest_cache/jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

from collections import Counter
from functools import cache
from pathlib import Path

import jax
import jaxtyping
import numpy as np
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")
# Modules with arrays only: elsewhere a wrong type must meet our own error, as it does for users.
jaxtyping.install_import_hook(
    [
        "milb.mixture",
        "milb.full_mixture",
        "milb.bounds",
        "milb.mdn",
        "milb.training",
        "milb.acquisition",
        "milb.scoring",
        "milb.strategy",
        "milb.problems.double_well",
        "milb.problems.sphere",
        "milb.plots",
    ],
    "beartype.beartype",
)


@cache
def _load(name: str) -> dict[str, np.ndarray]:
    with np.load(Path(__file__).parent / "data" / f"{name}.npz") as file:
        arrays = dict(file)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def pytest_addoption(parser):
    parser.addoption("--exhaustive", action="store_true", help="also tests that repeat others with other settings")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--exhaustive"):
        return
    kept, repeated, seen = [], [], Counter()
    for item in items:
        sample = item.get_closest_marker("sample")
        seen[item.function] += 1
        left_out = item.get_closest_marker("exhaustive") or (sample and seen[item.function] > sample.args[0])
        (repeated if left_out else kept).append(item)
    config.hook.pytest_deselected(items=repeated)
    items[:] = kept


@pytest.fixture(scope="session")
def reference():
    """`reference("acquisition")` and `reference("instances")`: the arrays of tests/data, by name, read-only."""
    return _load


@pytest.fixture(scope="session")
def small_protocol():
    """Of networks that are trained in moments."""
    from milb.problems import PROBLEMS

    return PROBLEMS["double_well"].protocol("smoke").replace(n_components=2, width=8, steps_per_label=1)


@pytest.fixture(scope="session")
def data():
    """50 points of the double-well, 10 to test on, 20 labels; modules may have data of their own."""
    from milb.problems import PROBLEMS

    return PROBLEMS["double_well"].dataset(0, 50, 10, 20)


@pytest.fixture(scope="session")
def ensemble(data, small_protocol):
    """Trained on these labels."""
    from milb.training import fit

    return fit(jax.random.key(0), data.x[:20], data.y[:20], small_protocol)


MAPPINGS = Path("/proc/self/maps")


@pytest.fixture(scope="module", autouse=True)
def _forget_programs():
    """Compiled programs go before thousands of them exhaust the process's memory mappings (Linux: 65,530)."""
    yield
    if not MAPPINGS.exists() or MAPPINGS.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
