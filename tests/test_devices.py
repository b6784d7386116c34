"""use_cpu_cores in processes of its own, since it decides how JAX starts."""

import os
import subprocess
import sys

import pytest

from milb import devices


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_makes_devices_once_and_is_then_a_no_op():
    code = """
import jax, milb
milb.use_cpu_cores(2)
assert jax.local_device_count("cpu") == 2
milb.use_cpu_cores(2)
try:
    milb.use_cpu_cores(3)
except RuntimeError as error:
    print(error)
"""
    result = run_python(code)
    assert result.returncode == 0, result.stderr
    assert "2 CPU device(s)" in result.stdout and "restart the kernel" in result.stdout


@pytest.mark.parametrize(
    ("before", "plugins", "level"), [("", [], "2"), ("--xla_backend_optimization_level=0", [], "0"), ("", ["cuda"], "")]
)
def test_compiles_for_less_long_where_there_is_no_accelerator(before, plugins, level, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", before)
    monkeypatch.setattr(devices.jax.config, "update", lambda name, value: None)
    monkeypatch.setattr(devices.importlib.metadata, "entry_points", lambda group: plugins)
    devices.use_cpu_cores(5)
    flags = dict(flag.removeprefix("--").split("=") for flag in os.environ["XLA_FLAGS"].split())
    assert flags.pop("xla_cpu_multi_thread_eigen") == "false"
    assert flags == ({"xla_backend_optimization_level": level} if level else {})


@pytest.mark.slow
def test_too_late_is_a_clear_error():
    code = "import jax, milb; jax.numpy.ones(1) + 1; milb.use_cpu_cores(2)"
    assert "came after the first JAX operation" in run_python(code).stderr


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2", 100_000_000, [2]])
def test_refuses(n):
    with pytest.raises(ValueError, match="CPU cores must be an integer from 1 to 1,024"):
        devices.use_cpu_cores(n)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (8, 1)])
def test_mesh_divides_the_work(n, size):
    assert devices.mesh_for(n).size == size  # the tests run on one device


def test_version_stamp_names_devices_and_versions():
    stamp = devices.version_stamp()
    assert "cpu" in stamp and "jax " in stamp and "milb " in stamp
