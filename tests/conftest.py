"""What all suites share: Hypothesis' settings, and the interpreter that programs in jobs are started with."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    """Draw the same examples in each run of `make test`, and new ones in `make test-long`.

    No example has a deadline: the time of one on a busy machine is no property of the code. The command `python` of
    jobs that run on this machine is the interpreter of the tests, as an image has it. SIGINT, which a shell without job
    control ignores for what it runs in the background, ends what tests start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("search" if config.option.markexpr == "long" else "repeatable")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
