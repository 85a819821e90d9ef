"""`python -m tfdist_trainer`, also `tfdist-train`: runs one replica, configured by its environment.

Every outcome ends in one place: one line on standard error, the termination message, and the exit code.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tfdist.contract import ExitCode, Phase, Role
from tfdist.contract_reports import COMPLETED, ProgressReport
from tfdist_trainer import __version__, environment, errors, heartbeat, log, report_server, termination
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.reporter import Reporter, first_report
from tfdist_trainer.run import run


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run this replica and exit."""
    options = _parse(sys.argv[1:] if arguments is None else arguments)
    reporter = Reporter(ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.STARTING))
    exit_code = _attempt(reporter, options.config)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: after a peer is lost, TensorFlow's destructors may wait for it forever.
    os._exit(exit_code)


def _attempt(reporter: Reporter, config: Path | None) -> int:
    """Run the task, from the file `config` if given; report the outcome and return the exit code."""
    path = termination.path_from(os.environ)

    def write_termination_message(reason: str, message: str) -> None:
        termination.write(path, termination.compose(reason, message, reporter.current))

    try:
        preemption = PreemptionHandler(write_termination_message)
        # Before any thread: threads inherit the mask that blocks SIGTERM.
        preemption.install()
        if config is not None:
            from tfdist_trainer import local  # noqa: PLC0415  a replica in a pod does not need the models of the API

            local.prepare(config, os.environ)
        member = environment.read_member(os.environ)
        preemption.patience_seconds = member.job.saving_seconds
        port = environment.read_report_port(os.environ)
        # The report answers before TensorFlow is imported.
        reporter.replace(first_report(member.job, member.round))
        writer = heartbeat.attach(os.environ)
        if writer is not None:
            writer.mark_kill_safe()  # checkpoints are renamed into place
        reporter.attach(writer)
        if port:
            report_server.serve(reporter, port)
        run(member, reporter, preemption)
    except Exception as error:
        failure = errors.classify(error)
        # A known failure has its cause in its message; a fault of ours needs the frames.
        if failure.exit_code is ExitCode.SOFTWARE:
            traceback.print_exc()
        log.error(f"tfdist-train: {failure.message}")
        write_termination_message(failure.reason, failure.message)
        return failure.exit_code
    # The controller tells a result that was written from a process that vanished with 0.
    write_termination_message(COMPLETED, "")
    return ExitCode.DONE


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tfdist-train",
        description="Train or evaluate as one replica of a TFDistJob, described by TFDIST_JOB and TF_CONFIG.",
        exit_on_error=False,
    )
    parser.add_argument("--version", action="version", version=f"tfdist-train {__version__}")
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="run the job in FILE without Kubernetes: a TFDistJob, or only its training, checkpoint and runtime",
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
