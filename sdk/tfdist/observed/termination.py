"""Describes why a replica ended: by its termination message, or by Kubernetes' reason."""

import signal
from typing import Final

from tfdist.failure_classification import EVICTED, OOM_KILLED, exceeded_own_storage
from tfdist.failure_text import cause_in
from tfdist.observed.pod import PodSummary
from tfdist.start_error import START_ERRORS, exec_error
from tfdist.termination import termination_message

_STORAGE_REMEDY: Final = "; raise resources.limits.ephemeral-storage, or the sizeLimit of the emptyDir"


def failure_message(pod: PodSummary) -> str:
    """Return in one line why a replica ended: its termination message, else Kubernetes' reason; "" for neither.

    A killed container could not write a message: the end of its log, which Kubernetes substitutes, has no reason.
    """
    unexecutable = exec_error(pod.reason, pod.message)
    if unexecutable:
        return f"{unexecutable.text}; {unexecutable.remedy}"
    parsed = termination_message(pod.message)
    if parsed:
        text = parsed.message.removeprefix(f"{pod.replica}: ")
        return text.removeprefix(f"{pod.replica} ended with exit code {pod.exit_code}").removeprefix("; ")
    if pod.reason == OOM_KILLED:
        return f"{OOM_KILLED}: the container exceeded its memory limit; raise resources.limits.memory"
    if pod.disrupted and pod.message:
        remedy = _STORAGE_REMEDY if exceeded_own_storage(pod.reason, pod.message) else ""
        return f"{pod.reason}: {cause_in(pod.message)}{remedy}"
    killed = pod.signal == signal.SIGKILL
    return ("" if killed else cause_in(pod.message)) or _signal(pod) or pod.reason


def _signal(pod: PodSummary) -> str:
    names = {int(each): each.name for each in signal.Signals}
    return f"killed by signal {pod.signal} ({names[pod.signal]})" if pod.signal in names else ""


def describe_failure(pod: PodSummary) -> str:
    """Return one line about the end of a replica, for conditions, events and failure records."""
    who = f"{pod.replica} (pod {pod.name}{f', node {pod.node}' if pod.node else ''})"
    text = failure_message(pod)
    if pod.exit_code is None:
        return f"{who} {'is being deleted' if pod.deleting else 'was lost'}{f': {text}' if text else ''}"
    return f"{who} ended with exit code {pod.exit_code}{f': {text}' if text else ''}"


def has_log(pod: PodSummary) -> bool:
    """Return whether there is a log: the container started and ended by itself, and its pod was not evicted."""
    return pod.ended and pod.exit_code is not None and pod.reason not in {EVICTED, *START_ERRORS}
