"""The last words of a replica: its termination message, whether or not its image keeps our contract."""

from pydantic import ValidationError

from tfdist.contract_reports import TerminationMessage
from tfdist_operator.observed.pod import PodSummary

_LONGEST = 512


def last_words(pod: PodSummary) -> TerminationMessage | None:
    """Return the termination message of a pod whose image writes ours, else None."""
    if not pod.message.lstrip().startswith("{"):
        return None
    try:
        return TerminationMessage.model_validate_json(pod.message)
    except ValidationError:
        return None


def said(pod: PodSummary) -> str:
    """Return in one line what a replica said at its end; "" where it said nothing."""
    words = last_words(pod)
    return words.message if words else _last_line(pod.message) or pod.reason


def describe(pod: PodSummary) -> str:
    """Return one line on how a replica ended, for conditions, events and failure records."""
    who = f"{pod.role}-{pod.index} (pod {pod.name}{f', node {pod.node}' if pod.node else ''})"
    text = said(pod)
    if pod.exit_code is None:
        return f"{who} {'is being deleted' if pod.deleting else 'was lost'}{f': {text}' if text else ''}"
    return f"{who} ended with exit code {pod.exit_code}{f': {text}' if text else ''}"


def _last_line(message: str) -> str:
    lines = [line for line in message.splitlines() if line.strip()]
    return lines[-1].strip()[:_LONGEST] if lines else ""
