"""What a study consists of: arms, and groups of runs that go in lockstep."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from milb import strategy as strategies
from milb.checks import checked_seed
from milb.devices import by_backend
from milb.problems import PROBLEMS
from milb.protocol import Options, Protocol

PAPER_STRATEGIES = (
    "random", "variance", "variance-sbal", "mi-lb-released", "mi-lb-sbal", "mi-lb-maxdist", "bait", "core-set",
)  # fmt: skip
OWN_STRATEGIES = ("mi-lb", "mi-lb-ties")


@dataclass(frozen=True)
class Arm:
    """A strategy with the options in which it differs from the protocol, e.g. an SBAL temperature."""

    strategy: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Arm:
        """From "mi-lb-sbal" or "variance-sbal:sbal_temperature=0.3,variance=trace"; ValueError says what is wrong."""
        name, _, changes = text.partition(":")
        strategies.get(name)
        fields = {field.name: field.default for field in dataclasses.fields(Options)}
        allowed = strategies.options_read(name)
        options = {}
        for change in filter(None, changes.split(",")):
            option, _, value = change.partition("=")
            if option in options:
                raise ValueError(f"{text!r} gives {option} twice")
            if option not in allowed:
                there_are = f"those it reads are {', '.join(sorted(allowed))}" if allowed else "it reads none"
                raise ValueError(f"{text!r}: {option!r} is no option of {name}; {there_are}")
            try:
                options[option] = type(fields[option])(value)
            except ValueError:
                raise ValueError(f"{text!r}: {option} = {value!r} is no number") from None
        Options(**options)
        return cls(name, tuple(sorted(options.items())))

    @property
    def changes(self) -> str:
        """The options as text, "" where there are none."""
        return ",".join(f"{name}={value}" for name, value in self.options)

    def __str__(self) -> str:
        return f"{self.strategy}:{self.changes}" if self.options else self.strategy


@dataclass(frozen=True)
class Group:
    """The unit of work and of resume: every arm on every seed of one benchmark, trained as one program.

    Attributes:
        benchmark: a name in `milb.problems.PROBLEMS`.
        scale: "smoke", "demo" or "paper", which the protocol started from.
        protocol: settings of all runs, beside the arms' own options.
        arms, seeds: of the runs; a seed is that of the dataset and of training.
    """

    benchmark: str
    scale: str
    protocol: Protocol
    arms: tuple[Arm, ...]
    seeds: tuple[int, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """What makes two groups the same, as plain values; block_size changes no result."""
        protocol = dataclasses.asdict(self.protocol)
        del protocol["block_size"]
        arms, seeds = [str(arm) for arm in self.arms], list(self.seeds)
        return {"benchmark": self.benchmark, "scale": self.scale, "arms": arms, "seeds": seeds, "protocol": protocol}

    @property
    def name(self) -> str:
        """Of its file: readable, and different for different settings."""
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:8]
        arms = str(self.arms[0].strategy) if len(self.arms) == 1 else f"{len(self.arms)}-strategies"
        seeds = "-".join(map(str, self.seeds))
        if len(seeds) > 140:  # file names end at 255 bytes; the digest tells groups apart
            seeds = f"{self.seeds[0]}-and-{len(self.seeds) - 1}-more"
        return f"{self.benchmark}_{self.scale}_{arms}_seed-{seeds}_{digest}"


def grid(
    benchmarks: str | Iterable[str] = tuple(PROBLEMS),
    arms: str | Arm | Iterable[str | Arm] = (*PAPER_STRATEGIES, *OWN_STRATEGIES),
    seeds: Iterable[int] = range(5),
    scale: str = "paper",
    runs_per_group: int | None = None,
    **changes: Any,
) -> list[Group]:
    """All runs of a study, in groups.

    The same arguments make the same groups, and so find their files again. Other ones, arms or seeds in another order
    too, make other groups, which begin anew unless `milb.study.run` splits them from larger ones.

    Args:
        benchmarks: names in `milb.problems.PROBLEMS`.
        arms: strategies, with their options where they have any, see `Arm.parse`.
        seeds: of datasets and training.
        scale: "smoke", "demo" or "paper".
        runs_per_group: at most so many runs in lockstep; None takes what fits the accelerator's memory, and 1 on
            CPUs, whose cores one run keeps busy.
        changes: fields of the protocol that all runs share, e.g. gibbs_half=True, clip="member".

    Raises:
        ValueError: an unknown benchmark, strategy, option or scale, nothing to do, or the same run twice.
        TypeError: an unknown field in changes.
    """
    benchmarks = [benchmarks] if isinstance(benchmarks, str) else list(benchmarks)
    arms = [Arm.parse(str(arm)) for arm in ([arms] if isinstance(arms, str | Arm) else arms)]
    seeds = [checked_seed("seed", seed) for seed in seeds]
    for name, values in (("benchmarks", benchmarks), ("arms", arms), ("seeds", seeds)):
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{name} must be different ones, at least one, got {[str(value) for value in values]}")
    groups = []
    for benchmark in benchmarks:
        if benchmark not in PROBLEMS:
            raise ValueError(f"unknown benchmark {benchmark!r}; there are {', '.join(map(repr, PROBLEMS))}")
        protocol = PROBLEMS[benchmark].protocol(scale)
        protocol = protocol.replace(**{"block_size": by_backend(protocol.block_size, 8_192), **changes})
        if len({(arm.strategy, protocol.replace(**dict(arm.options))) for arm in arms}) < len(arms):
            raise ValueError(f"arms must be different runs; on {benchmark} two of {[str(arm) for arm in arms]} are not")
        together = _runs_in_memory(benchmark, protocol) if runs_per_group is None else runs_per_group
        if isinstance(together, bool) or not isinstance(together, int) or together < 1:
            raise ValueError(f"runs_per_group must be an integer >= 1 or None, got {together!r}")
        for some_seeds in _chunks(seeds, max(1, together // len(arms))):
            for some_arms in _chunks(arms, together):
                groups.append(Group(benchmark, scale, protocol, some_arms, some_seeds))
    return groups


def _chunks(values: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    """As few as possible of at most `size`, as equal as possible."""
    number = math.ceil(len(values) / size)
    ends = [round(i * len(values) / number) for i in range(number + 1)]
    return [tuple(values[start:end]) for start, end in itertools.pairwise(ends)]


def _runs_in_memory(benchmark: str, protocol: Protocol) -> int:
    """Runs whose training fits half of the accelerator's memory; one on a CPU."""
    device = jax.devices()[0]
    if device.platform == "cpu":
        return 1
    problem = PROBLEMS[benchmark]
    head = protocol.n_components * (1 + 2 * problem.n_outputs)
    layers = (problem.n_inputs + (protocol.depth - 1) * protocol.width + head) * protocol.width
    activations = 8 * protocol.batch_size * (protocol.depth * protocol.width + head)
    test = 3 * protocol.n_test * head
    per_run = 4 * protocol.n_members * (4 * layers + activations + test)
    memory = (device.memory_stats() or {}).get("bytes_limit", 16 * 2**30)
    return max(1, int(memory / 2 / per_run))
