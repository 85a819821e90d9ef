"""Runs the controller under cProfile and leaves `controller-PID.prof` in the folder of TFDIST_BENCH_PROFILE.

The controller ends itself with `os._exit`, past everything that Python does at an end, so that call writes the file.
"""

import cProfile
import os
from pathlib import Path
from typing import NoReturn

from tfdist_operator import app


def main() -> None:
    """Run the controller until it stops."""
    profile = cProfile.Profile()
    leave = os._exit
    output = Path(os.environ["TFDIST_BENCH_PROFILE"], f"controller-{os.getpid()}.prof")

    def write_and_leave(status: int) -> NoReturn:
        profile.disable()
        profile.dump_stats(output)
        leave(status)

    os._exit = write_and_leave
    profile.enable()
    app.main()


if __name__ == "__main__":
    main()
