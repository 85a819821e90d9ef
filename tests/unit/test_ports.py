"""Ports for tests: suites that run at the same time do not get the same ones."""

import os
import random
import subprocess
import sys

import pytest
from support import ports

COMMAND = "from support import ports; ports.RANGE = range({start}, {start} + 40); print(*ports.free_ports(40))"


def test_another_process_gets_no_port_that_this_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    # given a small range, half of which this process has, and not the one of the same test in another clone
    start = random.randrange(ports.RANGE.start, ports.RANGE.stop - 40, 40)  # noqa: S311  not for secrets
    monkeypatch.setattr(ports, "RANGE", range(start, start + 40))
    mine = {number for port in ports.free_ports(10, together=2) for number in (port, port + 1)}
    # when another process asks for all of it, before this one has bound any
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COMMAND.format(start=start)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    # then it gets the others only
    others = {int(port) for port in found.stdout.split()}
    assert others
    assert mine.isdisjoint(others)
