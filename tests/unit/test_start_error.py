"""Commands that cannot be executed: the job fails at once with the runtime's error and a remedy."""

import pytest
from support.factories import Lifecycle, pod

from tfdist.failure_classification import classify
from tfdist.observed.pod import PodSummary
from tfdist.observed.termination import has_log

BOTH = "worker-0:R worker-1:R"
CONTAINERD = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: error during container init: "
)


def unstarted(error: str, reason: str = "StartError", code: int = 128) -> PodSummary:
    return pod("worker-0", "F", exit_code=code, reason=reason, message=f"{CONTAINERD}{error}: unknown")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            'exec: "python /code/x.py": stat python /code/x.py: no such file or directory',
            'command is a list, with each word an item of its own: ["python", "/code/x.py"]',
        ),
        ('exec: "/code/x.py": stat /code/x.py: no such file or directory', "add the file to the image or a volume"),
        ('exec: "pythn": executable file not found in $PATH', "correct the command, or add the program to the image"),
        ('exec: "/code/x.py": permission denied', "make the file executable"),
        ('exec: "/code/x.py": exec format error', "begin the script with #!"),
    ],
)
@pytest.mark.parametrize(("reason", "code"), [("StartError", 128), ("ContainerCannotRun", 127)])
def test_a_command_that_cannot_be_executed_fails_the_job_at_once_with_a_remedy(
    error: str, remedy: str, reason: str, code: int
) -> None:
    story = Lifecycle(BOTH)
    story.reconcile([unstarted(error, reason, code), pod("worker-1", "P")])
    assert story.condition_status("Failed") == ("True", "UserError")
    text = story.message("Failed")
    assert f"ended with exit code {code}: {error}; " in text
    assert remedy in text
    assert "a restart would fail the same way" in text
    assert "containerd task" not in text
    assert "kubectl logs" not in text, "a container that never started has no log"


@pytest.mark.parametrize(
    "error",
    [
        'error mounting "/var/lib/x" to rootfs at "/data": stat /var/lib/x: no such file or directory',
        "unable to apply cgroup configuration: open cgroup.procs: permission denied",
        'exec: "python": resource temporarily unavailable',
        "",
    ],
)
def test_any_other_start_error_restarts(error: str) -> None:
    meaning = classify(unstarted(error))
    assert (meaning.reason, meaning.action) == ("ApplicationError", "Restart")
    assert not has_log(unstarted(error))


def test_the_output_of_a_program_that_ran_is_no_start_error() -> None:
    text = 'exec: "ffmpeg": executable file not found in $PATH'
    assert classify(pod("worker-0", "F", exit_code=1, reason="Error", message=text)).action == "Restart"


def test_the_init_container_whose_command_cannot_be_executed_is_named() -> None:
    error = 'init container fetch: exec: "curl x": executable file not found in $PATH'
    story = Lifecycle(BOTH)
    story.reconcile([pod("worker-0", "F", exit_code=128, reason="StartError", message=error), pod("worker-1", "P")])
    assert error in story.message("Failed")
