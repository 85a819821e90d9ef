"""`python -m tfdist_trainer`, also `tfdist-train`: one replica, told by its environment what to do.

Whatever happens ends in one place: one line on standard error, the termination message, and the exit code.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tfdist.contract import ExitCode, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist_trainer import __version__, environment, errors, heartbeat, log, report_server, termination
from tfdist_trainer.notice import Notice
from tfdist_trainer.reporter import Reporter, first_report
from tfdist_trainer.run import run


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run this replica and exit."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    reporter = Reporter(ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.STARTING))
    exit_code = _attempt(reporter, options.config)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: after a peer is lost, TensorFlow's destructors may wait for it for ever.
    os._exit(exit_code)


def _attempt(reporter: Reporter, config: Path | None) -> int:
    """Run the task, of the file `config` if there is one, and return the exit code, having said why."""
    path = termination.path_from(os.environ)

    def last_words(reason: str, message: str) -> None:
        termination.write(path, termination.compose(reason, message, reporter.current))

    try:
        notice = Notice(last_words)
        notice.install()
        if config is not None:
            from tfdist_trainer import local  # noqa: PLC0415  a replica in a pod does without the whole resource

            local.prepare(config, os.environ)
        member = environment.read_member(os.environ)
        port = environment.read_report_port(os.environ)
        reporter.replace(first_report(member))
        heart = heartbeat.attach(os.environ)
        if heart is not None:
            heart.lose_nothing()  # checkpoints are renamed into place
        reporter.tell_to(heart)
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


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tfdist-train",
        description="Train or evaluate as one replica of a TFDistJob; TFDIST_JOB and TF_CONFIG say which.",
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"tfdist-train {__version__}")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="run without Kubernetes what FILE describes: a TFDistJob, or its training, checkpoint and runtime alone",
    )
    try:
        options, unknown = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        log.error(f"tfdist-train: {error}")
        sys.exit(ExitCode.USAGE)
    if unknown:
        parser.print_usage(sys.stderr)
        log.error(f"tfdist-train: unknown argument {unknown[0]!r}; the job is described by TFDIST_JOB or --config")
        sys.exit(ExitCode.USAGE)
    return options


if __name__ == "__main__":
    main()
