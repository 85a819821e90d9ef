"""Termination messages of programs, whether or not they are the JSON of the contract."""

from pydantic import ValidationError

from tfdist.contract_reports import TerminationMessage
from tfdist.failure_text import cause_in


def termination_message(text: str) -> TerminationMessage | None:
    """Return a termination message; None if it is not the JSON of the contract."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return TerminationMessage.model_validate_json(text)
    except ValidationError:
        return None


def termination_summary(text: str) -> str:
    """Return in one line why a program ended: the message of the contract's JSON, or the cause in any other text."""
    message = termination_message(text)
    return message.message if message else cause_in(text)
