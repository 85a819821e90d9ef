"""Local runs in processes of their own, for tests."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support.polling import WAIT_SECONDS, wait_for
from tfdist.local.init_process import descendants

POLITE = """
import os, signal, sys, time
def leave(*_):
    print("saved", flush=True)
    sys.exit(42)
signal.signal(signal.SIGTERM, leave)
print("ready", os.getpid(), flush=True)
time.sleep(600)
"""

WHO = """
import json, os, sys, time
job = json.loads(os.environ["TFDIST_JOB"])
index, attempt = job["index"], job["attempt"]
"""


class LocalRun:
    """A local run in a process of its own."""

    def __init__(self, folder: Path, *options: str, **spec: Any) -> None:
        manifest = {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": {"name": "job"}, "spec": spec}
        (folder / "job.yaml").write_text(yaml.safe_dump(manifest))
        self._start(folder, "job", *options, "job.yaml")

    def _start(self, folder: Path, job: str, *arguments: str, **environment: str) -> None:
        self.folder, self._job = folder, job
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfdist.cli", "run", "--local", *arguments],
            cwd=folder,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def log(self, name: str) -> str:
        path = self.folder / ".tfdist" / self._job / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def until_ready(self, *names: str) -> list[int]:
        """Return the processes below the run once each replica has written that it is ready."""
        wait_for("the replicas to be ready", lambda: all("ready" in self.log(name) for name in names))
        return descendants(self.process.pid)

    def end(self) -> tuple[int, str]:
        """Return exit code and output."""
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, output

    def condition(self, kind: str) -> dict[str, Any]:
        return next(dict(each) for each in self.status()["conditions"] if each["type"] == kind)

    def status(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / ".tfdist" / self._job / "status.json").read_text()))


class LocalRuns:
    """Starts runs in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[LocalRun] = []

    def __call__(self, program: str, *options: str, grace: int = 30, **spec: Any) -> LocalRun:
        """Start a run of a job with two workers that run a Python program, with a grace period in seconds."""
        template = {"spec": {"terminationGracePeriodSeconds": grace}}
        default = {"command": ["python", "-c", program], "worker": {"replicas": 2}, "template": template}
        self._started.append(LocalRun(self._folder, *options, **(default | spec)))
        return self._started[-1]

    def kill(self) -> None:
        """Kill the runs that have not ended."""
        for run in self._started:
            if run.process.poll() is None:
                run.process.kill()
                run.process.communicate()
