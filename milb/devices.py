"""Which devices JAX computes on, and with which versions of what."""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import numbers
import os
import platform
from typing import Any

import jax

_SINGLE_THREADED = "--xla_cpu_multi_thread_eigen=false"
_LEVEL = "--xla_backend_optimization_level"
MOST_DEVICES = 1_024
AXIS = "devices"  # of a mesh, see `mesh_for`


def use_cpu_cores(n: int | None = None) -> None:
    """Make n single-threaded CPU devices, so that members and pool points spread over the cores.

    JAX's element-wise work runs on one thread of a CPU device, so one device a core nearly doubles the speed of
    training on two cores. Call it before any JAX operation; without it everything works, on one device.

    Where JAX has no plugin for an accelerator, XLA also compiles at level 2 instead of 3, unless XLA_FLAGS names a
    level: programs run as fast and compile in a quarter to four fifths of the time. Their results differ in last bits
    at most: on the double-well and the multimodal benchmark in none, on the ternary one in some.

    Args:
        n: devices to make; None takes one for every core this process may use. Members spread over the greatest common
            divisor of their number and n, and the other devices repeat that work: for 8 members 8, 4 or 2.

    Raises:
        ValueError: n is not an integer from 1 to `MOST_DEVICES`.
        RuntimeError: JAX is running already, and not by a call of this with the same n (after which nothing happens).
    """
    if n is None:
        n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n, bool) or not isinstance(n, numbers.Integral) or not 1 <= n <= MOST_DEVICES:
        raise ValueError(f"CPU cores must be an integer from 1 to {MOST_DEVICES:,} or None, got {n!r}")
    n = int(n)
    if jax.config.jax_num_cpu_devices == n and _SINGLE_THREADED in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", n)
    except RuntimeError as error:
        raise RuntimeError(
            f"use_cpu_cores({n}) came after the first JAX operation, which started JAX with "
            f"{jax.local_device_count('cpu')} CPU device(s) and other settings; call it first, or restart the kernel"
        ) from error
    flags = [os.environ.get("XLA_FLAGS", ""), _SINGLE_THREADED]
    if _LEVEL not in flags[0] and not importlib.metadata.entry_points(group="jax_plugins"):
        flags.append(f"{_LEVEL}=2")
    os.environ["XLA_FLAGS"] = " ".join(flags).strip()


def cpu() -> jax.Device:
    """The first CPU device: benchmark instances are always made on it, whatever the default backend."""
    return jax.local_devices(backend="cpu")[0]


def on_one_device(tree: Any) -> Any:
    """A pytree's arrays on the first device: programs on them have no other device to wait for."""
    return jax.device_put(tree, jax.devices()[0])


def by_backend(cpu: int, accelerator: int) -> int:
    """A block size for the default backend: a core's cache wants small blocks, an accelerator few launches."""
    return cpu if jax.default_backend() == "cpu" else accelerator


def real_float32() -> contextlib.AbstractContextManager:
    """Matrix products in float32 on GPUs too, whose default, TF32, keeps 10 bits.

    Scores and NLL of sharp predictions, and BAIT's gains, depend on more. Training takes JAX's default,
    `jax.config.jax_default_matmul_precision`.
    """
    return jax.default_matmul_precision("float32")


def describe() -> str:
    """One line: the devices JAX computes on by default."""
    devices = jax.devices()
    kind = devices[0].device_kind if devices[0].platform != "cpu" else f"{platform.machine()} CPU"
    return f"{len(devices)} x {kind} ({devices[0].platform})"


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    packages = ("milb", "jax", "jaxlib", "flax", "optax", "numpy")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}


def version_stamp() -> str:
    """One line of devices and versions, the last line of every notebook."""
    return describe() + ", " + ", ".join(f"{name} {version}" for name, version in versions().items())


def mesh_for(n: int) -> jax.sharding.Mesh:
    """A mesh of all default devices whose axis "devices" divides n items evenly.

    Where not all devices can share n items, those along the axis "replicas" do the same work, so that results lie
    on every device and fit together with everything else.
    """
    size = math.gcd(n, jax.device_count())
    axis_types = (jax.sharding.AxisType.Auto,) * 2
    return jax.make_mesh((size, jax.device_count() // size), (AXIS, "replicas"), axis_types=axis_types)
