"""Ports for tests: suites that run at the same time do not get the same ones."""

import os
import subprocess
import sys

import pytest
from support import ports

COMMAND = "from support import ports; ports.RANGE = range(20_000, 20_040); print(*ports.free_ports(40))"


def test_another_process_gets_no_port_that_this_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a small range, half of which this process has
    monkeypatch.setattr(ports, "RANGE", range(20_000, 20_040))
    mine = {number for port in ports.free_ports(10, together=2) for number in (port, port + 1)}
    # when another process asks for all of it, before this one has bound any
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", COMMAND], env=environment, capture_output=True, text=True, check=True)
    # then it gets the others only
    others = {int(port) for port in found.stdout.split()}
    assert others
    assert mine.isdisjoint(others)
