"""JupyterLab on this machine only, with a token, and a headless Chromium that looks at it."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from jupyterlab_page import Lab
from selenium import webdriver

from milb import paths

WINDOW = (1300, 1000)
SETTINGS = {
    # all cells are in the page, wherever it is scrolled to
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The root folder of JupyterLab's file browser."""
    return tmp_path_factory.mktemp("notebooks")


@pytest.fixture(scope="session")
def server(folder, tmp_path_factory):
    """Address and token."""
    home, token = tmp_path_factory.mktemp("jupyter"), secrets.token_hex(16)
    for name, values in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}  # kernels choose theirs
    environment |= {"JUPYTER_CONFIG_DIR": str(home / "config"), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "IPYTHONDIR": str(home / "ipython")}
    environment |= {"JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"), "JUPYTER_DATA_DIR": str(home / "data")}
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    command += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True"]
    with (home / "log.txt").open("wb") as log:
        process = subprocess.Popen([*on_one_core(), *command], env=environment, stdout=log, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        await_answer(process, f"{address}/api/status?token={token}", home / "log.txt")
        yield address, token
    finally:
        process.terminate()  # and with it, its kernels
        process.wait(timeout=30)


def on_one_core() -> list[str]:
    """Kernels of parallel tests beside, not on top of each other: devices that wait for one another stall otherwise."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or not hasattr(os, "sched_getaffinity") or not shutil.which("taskset"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    return ["taskset", "--cpu-list", str(cores[int(worker.removeprefix("gw")) % len(cores)])]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def await_answer(process: subprocess.Popen, address: str, log: Path, seconds: float = 90) -> None:
    for _ in range(int(seconds / 0.5)):
        assert process.poll() is None, f"JupyterLab ended:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"JupyterLab did not answer in {seconds:.0f} s:\n{log.read_text()}")


def installed(*names: str) -> str:
    """The path of the first of these programs that there is."""
    found = next(filter(None, map(shutil.which, names)), None)
    assert found, f"none of {', '.join(names)} is installed: on Debian, apt-get install chromium chromium-driver"
    return found


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = installed("chromium", "chromium-browser", "google-chrome")
    profile = tmp_path_factory.mktemp("chromium")
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "disable-extensions"):
        options.add_argument(f"--{argument}")
    options.add_argument(f"--window-size={WINDOW[0]},{WINDOW[1]}")
    options.add_argument(f"--user-data-dir={profile}")
    driver = webdriver.Chrome(options, webdriver.ChromeService(installed("chromedriver")))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def lab(server, driver):
    return Lab(driver, *server, screenshots=paths.writable(paths.runs() / "browser"))
