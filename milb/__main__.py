"""`python -m milb ask`: what to measure next, from CSV files. `python -m milb study`: many runs on the benchmarks."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from collections.abc import Sequence

from milb import ask_command, study
from milb.devices import use_cpu_cores, version_stamp
from milb.paths import runs
from milb.problems import PROBLEMS
from milb.protocol import SCALES

MOST_SEEDS = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when all is done, 3 when a study has runs left for another call, 2 for what cannot be asked."""
    parser = argparse.ArgumentParser(prog="python -m milb", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_ask(commands.add_parser("ask", help="pick the rows of a CSV file to measure next"))
    _add_study(commands.add_parser("study", help="run many active-learning runs, or go on with them"))
    options = parser.parse_args(arguments)
    try:
        return options.call(options)
    except (ValueError, TypeError, OSError, ModuleNotFoundError, FloatingPointError) as error:
        print(f"python -m milb {options.command}: {error}", file=sys.stderr)
        return 2


def _add_ask(parser: argparse.ArgumentParser) -> None:
    ask_command.add_arguments(parser)
    parser.add_argument("--cpu-cores", type=int, metavar="N", help="CPU devices to use; default: all cores")
    parser.set_defaults(call=_ask)


def _ask(options: argparse.Namespace) -> int:
    use_cpu_cores(options.cpu_cores)
    return ask_command.ask(options)


def _add_study(parser: argparse.ArgumentParser) -> None:
    default = (*study.PAPER_STRATEGIES, *study.OWN_STRATEGIES)
    parser.add_argument("--scale", choices=SCALES, default="paper")
    parser.add_argument("--benchmark", nargs="+", default=list(PROBLEMS), metavar="NAME", help="default: all three")
    parser.add_argument(
        "--strategy", nargs="+", default=list(default), metavar="NAME",
        help="e.g. mi-lb, or with options mi-lb-sbal:sbal_temperature=0.3; default: the paper's eight and ours",
    )  # fmt: skip
    parser.add_argument("--seeds", type=_seeds, default=list(range(5)), metavar="0-4", help="such as 0-4 or 0,2")
    parser.add_argument("--store", metavar="FOLDER", help="of results; default runs/study, see milb.paths")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="begin no round that would end later")
    parser.add_argument("--archive", metavar="FILE", help="keep all of the store in one tar file too")
    parser.add_argument("--scheduler", metavar="TCP://…", help="of a dask cluster, whose workers share the store")
    parser.add_argument("--elsewhere", action="store_true", help="go on with what other devices or versions began")
    parser.add_argument("--split", action="store_true", help="begin with what a larger group has made of the runs")
    parser.add_argument("--runs-per-group", type=int, metavar="N", help="default: what memory holds, 1 on a CPU")
    parser.add_argument("--cpu-cores", type=int, default=1, metavar="N", help="that share runs or members; default 1")
    parser.set_defaults(call=_study)


def _study(options: argparse.Namespace) -> int:
    use_cpu_cores(options.cpu_cores)
    store = runs() / "study" if options.store is None else options.store
    print(f"{version_stamp()}\nresults in {store}", flush=True)
    groups = study.grid(
        options.benchmark, options.strategy, options.seeds, options.scale, runs_per_group=options.runs_per_group
    )
    with contextlib.nullcontext() if options.scheduler is None else study.connect(options.scheduler) as client:
        finished = study.run(
            groups,
            store,
            options.time_limit,
            options.archive,
            options.elsewhere,
            client=client,
            split=options.split,
        )
    print("finished" if finished else "not finished: the same call goes on", flush=True)
    return 0 if finished else 3


def _seeds(text: str) -> list[int]:
    seeds = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None or int(match[1]) > int(match[2] or match[1]):
            raise argparse.ArgumentTypeError(f"must be numbers and rising ranges, such as 0-4 or 0,2; got {text!r}")
        more = range(int(match[1]), int(match[2] or match[1]) + 1)
        if len(seeds) + more.stop - more.start > MOST_SEEDS:
            raise argparse.ArgumentTypeError(f"must be at most {MOST_SEEDS:,} seeds, got {text!r}")
        seeds += more
    return seeds


if __name__ == "__main__":
    sys.exit(main())
