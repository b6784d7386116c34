"""The README's Python runs as it stands, in the order in which it is read."""

import re
from pathlib import Path

import numpy as np
import pytest

from milb.paths import figures_data
from milb.problems import PROBLEMS
from milb.strategy import STRATEGIES
from milb.study.grid import grid
from milb.study.split import rounds_of_larger

pytestmark = pytest.mark.slow

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def test_every_block_of_python_runs(tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL))
    code = code.replace('protocol("demo")', 'protocol("smoke")').replace("milb.use_cpu_cores()", "")
    means = np.zeros((2, 3, 4, 5), np.float32)
    namespace = {"logits": means[..., 0], "means": means, "variances": means + 1}
    exec(compile(code, "README.md", "exec"), namespace)
    assert namespace["result"].history["n"].iloc[0] == PROBLEMS["double_well"].protocol("smoke").n_initial


def test_what_needs_a_cluster_is_python_at_least():
    (code,) = re.findall(r"```py\n(.*?)```", README, re.DOTALL)
    compile(code, "README.md", "exec")


def test_the_example_of_a_split_has_something_to_go_on_with():
    (arguments,) = re.findall(r"python -m milb (study .*--split --elsewhere)", README.replace("\\\n", ""))
    options = dict(re.findall(r"--(benchmark|strategy|seeds|runs-per-group) ([^-]\S*(?: [^-]\S*)*)", arguments))
    seeds = [int(seed) for seed in options["seeds"].split(",")]
    groups = grid(
        options["benchmark"], options["strategy"].split(), seeds, runs_per_group=int(options["runs-per-group"])
    )
    for group in groups:
        progress, _ = rounds_of_larger(figures_data() / "study", group)
        assert progress.metrics and not progress.finished(group)


def test_lists_every_strategy():
    for name in STRATEGIES:
        assert f"`{name}`" in README
