"""`tfdist sweep results SWEEP`: the trials of a sweep as a table, CSV, JSON or YAML."""

import sys

from tfdist.cli.find import attach_sweep
from tfdist.cli.job_table import write_document
from tfdist.cli.output import has_colour, message, width_of, write_lines
from tfdist.cli.sweep_table import result_table, write_csv
from tfdist.client.client import Client


def execute(client: Client, name: str, *, output: str | None, best_first: bool) -> int:
    """Print the trials of a sweep and return the exit code.

    Args:
        client: in the namespace of the sweep.
        name: of the sweep.
        output: `csv`, `json` or `yaml`; None for a table.
        best_first: whether the best trial is the first one, instead of number 0.
    """
    sweep = attach_sweep(client, name).sweep
    trials = sweep.results(best_first=best_first)
    if output == "csv":
        write_csv(sys.stdout, trials)
    elif output is not None:
        goal = "Maximize" if sweep.maximizes else "Minimize"
        head = {"sweep": sweep.name, "metric": sweep.metric, "goal": goal}
        write_document(sys.stdout, head | {"results": [trial.document() for trial in trials]}, output)
    elif trials:
        lines = result_table(trials, width=width_of(sys.stdout), colour=has_colour(sys.stdout))
        write_lines(lines)
    else:
        message(f'sweep "{sweep.name}" has no trials yet')
    return 0
