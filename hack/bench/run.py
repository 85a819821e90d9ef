"""The command: runs the selected measurements, and writes the table and files."""

import argparse
import os
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench import command_line, create, lifecycle, peer, report, steady
from bench.cluster import Cluster, fresh
from bench.ours import PROFILE, Ours
from bench.peer import TUNED, Peer
from bench.results import Row
from bench.steady import Size
from tfdist_cluster import console
from tfdist_cluster.errors import ClusterError

COMMAND_LINE_PART: Final = "command-line"
PARTS: Final = ("create", "lifecycle", "steady", COMMAND_LINE_PART)


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit status: 0 even if a target is missed: the table shows it."""
    options = _parser().parse_args(arguments)
    if options.profile:
        options.profile.mkdir(parents=True, exist_ok=True)
        os.environ[PROFILE] = str(options.profile.resolve())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # nothing of the run stays however it is stopped
    try:
        if set(options.only) - {COMMAND_LINE_PART}:
            _store(options, "", lambda: _of_controller(options))
        if COMMAND_LINE_PART in options.only:
            _store(options, report.COMMAND_LINE, command_line.run)
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        console.info("interrupted; nothing is left running")
        return 130
    return 0


def _store(options: argparse.Namespace, section: str, measure: Callable[[], list[Row]]) -> None:
    """Measure the rows of a section, print them and write them in place of the rows of an earlier run."""
    began, load = datetime.now(UTC), os.getloadavg()[0]
    results = report.document(measure(), began, load)
    print(report.show(results))
    report.write(results, options.output, section)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measures TFDist and the training operator")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to measure; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="of creation; the median counts; default: %(default)s")
    parser.add_argument("--steady-jobs", type=int, default=1000, help="default: %(default)s")
    parser.add_argument("--steady-workers", type=int, default=10, help="of each of those jobs; default: %(default)s")
    parser.add_argument("--output", type=Path, default=report.RESULTS, help="default: hack/bench/results.json")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="write cProfile files; figures mean nothing")
    return parser


def _of_controller(options: argparse.Namespace) -> list[Row]:
    """Return the rows of the chosen parts. Creation comes first, for it needs a cluster without nodes."""
    with fresh() as cluster:
        return _on_cluster(cluster, options)


def _on_cluster(cluster: Cluster, options: argparse.Namespace) -> list[Row]:
    ours, tuned, default = Ours(), Peer("peer", TUNED), Peer("peer-default", ())
    size = Size(options.steady_jobs, options.steady_workers)
    parts: dict[str, Callable[[], list[Row]]] = {
        "create": lambda: create.run(cluster, ours, tuned, default, options.repeats),
        "lifecycle": lambda: lifecycle.run(cluster, ours, tuned),
        "steady": lambda: steady.run(cluster, ours, tuned, size),
    }
    rows: list[Row] = []
    has_nodes = False
    try:
        for subject in (ours, tuned):
            subject.install(cluster)
        for name in (part for part in parts if part in options.only):
            if name != "create" and not has_nodes:
                cluster.add_nodes()
                has_nodes = True
            rows += parts[name]()
    finally:
        peer.remove_certificates()
    return rows
