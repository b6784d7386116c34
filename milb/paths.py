"""Where milb reads and writes, from any working folder.

The root is, in this order: the environment variable `MILB_HOME`; the checkout, when milb runs out of one (an editable
install); the current folder, when milb is installed as a plain package.
"""

import os
from pathlib import Path

from milb.protocol import check_scale


def root() -> Path:
    """The folder that holds `runs/` and `figures/`; looked up at every call, created by nobody here."""
    home = os.environ.get("MILB_HOME")
    if home:
        return resolved(home, "MILB_HOME")
    checkout = Path(__file__).resolve().parents[1]
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def runs() -> Path:
    """Everything that running milb leaves behind: results, executed notebooks, their figures. Git ignores it."""
    return root() / "runs"


def figures(scale: str) -> Path:
    """Where a notebook run at `scale` ("smoke", "demo" or "paper") puts its figures. Any other scale: ValueError."""
    check_scale(scale)
    return runs() / "figures" / scale


def figures_data() -> Path:
    """The committed tables behind the paper-scale figures."""
    return root() / "figures" / "data"


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with a home folder in place of ~, which shells leave in --state=~/lab.npz; ValueError: nobody's."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None


def resolved(path: str | os.PathLike[str], name: str) -> Path:
    """Where an `expanded` path leads to; ValueError, with the name of what it is for: empty, or a link to itself."""
    if not os.fspath(path):
        raise ValueError(f"{name} must be a path, got an empty one")
    try:
        whole = Path(os.path.realpath(expanded(path)))
    except ValueError as error:
        raise ValueError(f"{name} {os.fspath(path)!r}: {error}") from None
    if any(part.is_symlink() for part in (whole, *whole.parents)):
        raise ValueError(f"{name} {path} is a link to itself")
    return whole


def writable(folder: Path) -> Path:
    """Create `folder` with its parents and return it.

    Raises PermissionError, with the way out in its message, when it cannot be created or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise PermissionError(f"cannot create {folder} ({reason.strerror}); {_WAY_OUT}") from reason
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write to {folder}; {_WAY_OUT}")
    return folder


_WAY_OUT = "set the environment variable MILB_HOME to a folder that you may write to"
