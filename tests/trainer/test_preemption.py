"""SIGTERM: the process takes it in a thread of its own, and its children as other processes do."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

PROGRAM: Final = """
import multiprocessing, signal, time
from tfdist_trainer.preemption import PreemptionHandler
PreemptionHandler(print).install()
assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True)
child.start()
child.terminate()
child.join(30)
print(child.exitcode)
child.kill()
"""


def test_a_forked_child_that_is_terminated_ends() -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == [str(-signal.SIGTERM)]
