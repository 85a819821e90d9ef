"""The output of a run: a printed table, `results.json`, and the table in `docs/benchmarks.md`."""

import json
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.results import Row
from tfdist_cluster import shell, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import GO_MODULE, REPOSITORY

RESULTS: Final = REPOSITORY / "hack" / "bench" / "results.json"
PAGE: Final = REPOSITORY / "docs" / "benchmarks.md"
TRAINER: Final = "trainer"
EVALUATOR: Final = "evaluator"
RECOVERY: Final = "recovery"
COMMAND_LINE: Final = "command line"
FIT: Final = "fit"
EMBEDDING: Final = "embedding"
NETWORKS: Final = "networks"
DATA: Final = "data"
SECTIONS: Final = (TRAINER, EVALUATOR, RECOVERY, COMMAND_LINE, FIT, EMBEDDING, NETWORKS, DATA)
"""Keys of results in the file, and before `results` in the page's marks; the controller's have none."""

_GIB: Final = 1024**3


def document(rows: Sequence[Row], began: datetime, load_before: float) -> dict[str, Any]:
    """Return the results with the machine and the versions that they were measured with."""
    return {
        "began": f"{began:%Y-%m-%dT%H:%M:%SZ}",
        "minutes": round((datetime.now(UTC) - began).total_seconds() / 60, 1),
        "machine": _machine(load_before),
        "versions": _versions(),
        "results": [row.to_json() for row in rows],
    }


def show(results: dict[str, Any]) -> str:
    """Return the table for a terminal."""
    lines = [_cells(row) for row in results["results"]]
    table = [_HEAD, *lines]
    widths = [max(len(line[i]) for line in table) for i in range(len(_HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table)


def write(results: dict[str, Any], output: Path, section: str = "") -> None:
    """Write the results of `section`, and leave the others; results at the usual place go into the page too."""
    results_before: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {}
    merged_results = (
        results_before | {section: results}
        if section
        else results | {key: results_before[key] for key in SECTIONS if key in results_before}
    )
    output.write_text(json.dumps(merged_results, indent=2, ensure_ascii=False) + "\n")
    if output.resolve() == RESULTS:
        mark = f"{section} results".strip()
        between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
        PAGE.write_text(between.sub(lambda match: f"{match[1]}{markdown(results)}\n{match[2]}", PAGE.read_text()))


def markdown(results: dict[str, Any]) -> str:
    """Return the table of the page, with machine and versions."""
    machine = results["machine"]
    head = [*_HEAD, "Remarks"]
    rows = [[*_cells(row), row["note"] or ""] for row in results["results"]]
    table = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]
    about = (
        f"Measured {results['began']} in {results['minutes']} minutes on {machine['cpus']} cores of "
        f"{machine['model']}, {machine['memory_gib']} GiB, load {machine['load_before']} before the run. "
        + ", ".join(f"{name} {version}" for name, version in results["versions"].items())
        + "."
    )
    return "\n".join([*table, "", about])


_HEAD: Final = ["Benchmark", "Ours", "Peer", "Unit", "Ratio", "Target", "Met"]


def _cells(row: dict[str, Any]) -> list[str]:
    met = {True: "yes", False: "NO", None: ""}[row["met"]]
    figures = [f"{row[key]:.3g}" if row[key] is not None else "" for key in ("ours", "peer", "ratio")]
    return [row["name"], figures[0], figures[1], row["unit"], figures[2], row["target"] or "", met]


def _machine(load_before: float) -> dict[str, Any]:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "model": model[1] if model else platform.machine(),
        "cpus": os.cpu_count(),
        "memory_gib": round(pages / _GIB),
        "kernel": platform.release(),
        "load_before": round(load_before, 2),
    }


def _versions() -> dict[str, str]:
    (kwok,) = re.findall(r"sigs\.k8s\.io/kwok (\S+)", (GO_MODULE / "go.mod").read_text())
    peer = versions.EXTRA_TOOLS["training-operator"].rpartition("@")[2]
    return {
        "TFDist": _commit(),
        "Kubernetes": versions.KUBERNETES,
        "Python": platform.python_version(),
        "training-operator": peer,
        "kwok": kwok,
    }


def _commit() -> str:
    try:
        return shell.run(["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--exclude=*"]).strip()
    except ClusterError:
        return "unknown"
