"""Prometheus and its promtool: those on the path, else those of Debian's package, unpacked and not installed."""

import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
import requests

from support.polling import wait_for
from support.ports import free_ports
from tfdist_cluster import lock
from tfdist_cluster.paths import State

PROGRAMS: Final = ("promtool", "prometheus")
_STARTS: Final = 3
"""How often another port is tried if another process has taken the one that was free."""


def program(name: str) -> pathlib.Path:
    """Return one of the programs; the test is skipped if there is none and no Debian to fetch one from."""
    path = shutil.which(name)
    if path:
        return pathlib.Path(path)
    folder = State.from_environment().cached("prometheus")
    with lock.exclusive(folder / ".prometheus.lock"):
        if not (folder / name).exists():
            _fetch(folder)
    return folder / name


def _fetch(folder: pathlib.Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("needs prometheus and promtool: install Prometheus")
    fetch = ["apt-get", "-qq", "download", "prometheus"]
    if subprocess.run(fetch, cwd=folder, check=False, timeout=300).returncode:
        subprocess.run(["apt-get", "-qq", "update"], check=True, timeout=300)
        subprocess.run(fetch, cwd=folder, check=True, timeout=300)
    (archive,) = folder.glob("prometheus_*.deb")
    unpacked = folder / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", archive, unpacked], check=True)
    for name in PROGRAMS:
        (unpacked / "usr/bin" / name).replace(folder / name)  # each is either whole or absent
    shutil.rmtree(unpacked)
    archive.unlink()


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a panel: its labels, and its points as seconds since 1970 and value."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def last(self) -> float:
        """The newest value."""
        return self.points[-1][1]


class Prometheus:
    """A Prometheus that runs."""

    def __init__(self, address: str) -> None:
        self._address = address

    def comes_up(self, process: "subprocess.Popen[bytes]") -> bool:
        """Wait until it answers, and return True; or False if its process ends before."""
        wait_for("Prometheus", lambda: process.poll() is not None or self._is_ready(), 120)
        return process.poll() is None

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self._address}/-/ready", timeout=10).ok
        except (requests.ConnectionError, requests.Timeout):
            return False

    def now(self, expression: str) -> list[Series]:
        """Return what an expression is at this moment."""
        series = self._ask("query", query=expression)["result"]
        return [Series(one["metric"], (_point(one["value"]),)) for one in series]

    def between(self, expression: str, start: float, end: float, step_seconds: float) -> list[Series]:
        """Return what an expression was, as a panel of Grafana asks for it."""
        series = self._ask("query_range", query=expression, start=str(start), end=str(end), step=str(step_seconds))
        return [Series(one["metric"], tuple(map(_point, one["values"]))) for one in series["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules, with how their last evaluation went."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """Return whom it asks, and how that went."""
        active: list[dict[str, Any]] = self._ask("targets")["activeTargets"]
        return active

    def _ask(self, what: str, **query: str) -> Any:
        answer = requests.get(f"{self._address}/api/v1/{what}", params=query, timeout=60)
        assert answer.ok, f"{query or what}: {answer.text}"
        return answer.json()["data"]


def _point(pair: tuple[float, str]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])


@contextmanager
def prometheus(
    folder: pathlib.Path, targets: Mapping[str, str], *, rules: pathlib.Path, every_seconds: float = 1.0
) -> Iterator[Prometheus]:
    """Run Prometheus until the block ends; it asks `targets`, `host:port` by the name of a pod, as the chart has it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "prometheus.yaml"
    config.write_text(json.dumps(_configuration(targets, rules, every_seconds)))
    process, server = _start(folder, config)
    try:
        yield server
    finally:
        process.terminate()
        process.wait(timeout=60)


def _configuration(targets: Mapping[str, str], rules: pathlib.Path, every_seconds: float) -> dict[str, Any]:
    every = f"{round(every_seconds * 1000)}ms"
    asked = [
        {"targets": [address], "labels": {"namespace": "tfdist-system", "pod": pod}} for pod, address in targets.items()
    ]
    scrape = {"job_name": "tfdist-controller", "honor_labels": True, "static_configs": asked}
    intervals = {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every}
    return {"global": intervals, "rule_files": [str(rules)], "scrape_configs": [scrape]}


def _start(folder: pathlib.Path, config: pathlib.Path) -> tuple["subprocess.Popen[bytes]", Prometheus]:
    log = folder / "prometheus.log"
    for _ in range(_STARTS):
        (port,) = free_ports(1)
        options = [
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with log.open("ab") as output:
            process = subprocess.Popen([program("prometheus"), *options], stdout=output, stderr=output)
        server = Prometheus(f"http://127.0.0.1:{port}")
        if server.comes_up(process):
            return process, server
    raise AssertionError(f"Prometheus does not run: {log.read_text()[-2000:]}")
