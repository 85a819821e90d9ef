"""`python -m tfdist_trainer`, also `tfdist-train`: one replica, told by its environment what to do.

Whatever happens ends in one place: one line on standard error, the termination message, and the exit code.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from tfdist.contract import ExitCode, Phase, ProgressReport, Role
from tfdist_trainer import __version__, environment, errors, log, report_server, termination
from tfdist_trainer.notice import Notice
from tfdist_trainer.report import Reporter, first_report
from tfdist_trainer.run import run


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run this replica and exit."""
    _parse(sys.argv[1:] if arguments is None else arguments)
    reporter = Reporter(ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.STARTING))
    exit_code = _attempt(reporter)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: after a peer is lost, TensorFlow's destructors may wait for it for ever.
    os._exit(exit_code)


def _attempt(reporter: Reporter) -> int:
    """Run the task and return the exit code, having said why."""
    path = termination.path_from(os.environ)

    def last_words(reason: str, message: str) -> None:
        termination.write(path, termination.compose(reason, message, reporter.current))

    try:
        notice = Notice(lambda text: last_words("Terminated", text))
        notice.install()
        member = environment.read_member(os.environ)
        port = environment.read_report_port(os.environ)
        reporter.replace(first_report(member))
        if port:
            report_server.serve(reporter, port)
        run(member, reporter, notice)
    except Exception as error:
        failure = errors.classify(error)
        if failure.exit_code is ExitCode.SOFTWARE:
            traceback.print_exc()
        log.error(f"tfdist-train: {failure.message}")
        last_words(failure.reason, failure.message)
        return failure.exit_code
    last_words("Completed", "")
    return ExitCode.DONE


def _parse(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="tfdist-train",
        description="Train or evaluate as one replica of a TFDistJob; TFDIST_JOB and TF_CONFIG say which.",
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"tfdist-train {__version__}")
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.print_usage(sys.stderr)
        log.error(f"tfdist-train: unknown argument {unknown[0]!r}; the job is described by TFDIST_JOB")
        sys.exit(ExitCode.USAGE)


if __name__ == "__main__":
    main()
