"""The commands of `tfdist` and `tfdist sweep`, in the order of their help: where each is, and its first sentence."""

from collections.abc import Mapping
from typing import Final

from tfdist.cli.command_line import Entry

SWEEP_HELP: Final = "Run and compare trials of a job with different values of parameters."
COMMANDS: Final[Mapping[str, Entry]] = {
    "submit": Entry("submit:submit", "Create a job in a cluster, from a manifest or a command."),
    "run": Entry("run:run", "Run a job and follow it to its end, in a cluster or as processes on this machine."),
    "evaluate": Entry("evaluate:evaluate", "Evaluate a checkpoint of a job, or an ensemble, with a new job."),
    "list": Entry("show:list_", "List jobs or sweeps."),
    "get": Entry("show:get", "Show one job or sweep."),
    "describe": Entry("show:describe", "Show everything about a job or sweep."),
    "events": Entry("events:events", "Show the events of a job and its pods."),
    "wait": Entry("wait:wait", "Wait until a job or sweep has ended, or reaches a phase."),
    "suspend": Entry("control:suspend", "Suspend jobs or sweeps."),
    "resume": Entry("control:resume", "Resume suspended jobs or sweeps."),
    "restart": Entry("control:restart", "Restart the gangs of jobs."),
    "scale": Entry("control:scale", "Set the number of workers of a job that is suspended or has not started."),
    "delete": Entry("control:delete", "Delete jobs or sweeps."),
    "logs": Entry("logs:logs", "Print the logs of the replicas of a job."),
    "attach": Entry("attach:attach", "Follow a job or sweep to its end."),
    "sweep": Entry("", SWEEP_HELP),
    "port-forward": Entry("port_forward:port_forward", "Forward ports of this machine to a replica, until Ctrl-C."),
    "tensorboard": Entry("tensorboard:tensorboard", "Open the TensorBoard of a job that sets `spec.tensorBoard`."),
    "shell": Entry("shell:shell", "Open a shell, or run the command after `--`, in the container of a replica."),
    "stacks": Entry("stacks:stacks", "Print the current Python stacks of the replicas."),
    "doctor": Entry("doctor:doctor", "Check the cluster, your rights and the namespace, and a job that has problems."),
    "report": Entry("report:report", "Write one file for a bug report."),
    "top": Entry("top:top", "Show what jobs use and do now: GPUs and requested CPUs, step, throughput, step time."),
    "cost": Entry("cost:cost", "Show the GPU and CPU hours of jobs, and how much of that time was productive or lost."),
    "init": Entry("init:init", "Write a first manifest after a few questions."),
    "validate": Entry("validate:validate", "Check TFDistJobs and TFDistSweeps offline."),
    "render": Entry("render:render", "Print every object that the controller would create."),
    "convert": Entry(
        "convert:convert", "Convert TFJobs to TFDistJobs, and Katib Experiments of TFJobs to TFDistSweeps."
    ),
}
SWEEP_COMMANDS: Final[Mapping[str, Entry]] = {
    "submit": Entry("sweep:submit", "Create a sweep from a manifest."),
    "run": Entry("sweep:run", "Create a sweep, and follow it to its end: `submit`, then `attach`."),
    "attach": COMMANDS["attach"],
    "wait": COMMANDS["wait"],
    "list": COMMANDS["list"],
    "get": COMMANDS["get"],
    "describe": COMMANDS["describe"],
    "results": Entry("sweep:results", "Show the trials of a sweep with their parameters and values."),
    "suspend": COMMANDS["suspend"],
    "resume": COMMANDS["resume"],
    "delete": COMMANDS["delete"],
}
