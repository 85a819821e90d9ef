"""The cause of a failure in the output of a program, and whether two failures have the same cause.

Kubernetes and the launcher substitute the end of a program's output for a termination message. Its last line is often
not the cause: a warning of TensorFlow, a node of its graph, or what the program printed when it ended.
"""

import re
from collections.abc import Sequence
from typing import Final

LONGEST_CAUSE: Final = 512
MAX_NAMED: Final = 3
_TRACEBACK: Final = re.compile(r"^\s*(?:\+ Exception Group )?Traceback \(most recent call last\):\s*$")
_IGNORED: Final = re.compile(r"^(?:Exception ignored (?:in|while|on)\b|Error in atexit\b)")
"""Line before the traceback of an exception that Python only prints, of a destructor or an exit handler."""
_GROUP: Final = "Exception Group Traceback"
_IN_GROUP: Final = re.compile(r"^ +\| (?=\S)(?!(?:Exception Group )?Traceback )")
"""Margin of an exception in the traceback of an exception group; frames are further to the right."""
_CHAIN: Final = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_END_OF_GROUP: Final = re.compile(r"^ +\+-+$")
_SYNTAX: Final = re.compile(r"^(?:SyntaxError|IndentationError|TabError): ")
_POSITION: Final = re.compile(r'^\s+File "([^"]+)", line (\d+)')
_EXCEPTION: Final = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Iteration)\b(?::|$)")
"""First line of an exception outside of a traceback, by the names that Python's guide to style recommends."""
_GRAPH_ERROR: Final = "Graph execution error:"
_FRAME: Final = re.compile(r'^\s+File "')
_FRAME_OF_TRACEBACK: Final = re.compile(r'^\s+File "[^"]+", line \d+, in ')
_LINES_OF_POSITION: Final = 3
"""File, source and caret, before a syntax error."""
_NODE: Final = re.compile(r"(?:(?<!\s)\s++)?(?:\[\[.*|\[Op:\w++\])|\{\{function_node [^{}]*+\}\}\s*+")
"""A node of a TensorFlow graph, or the function that an operation belongs to, to the end of its line or before it.

Blanks before it are tried from their first one only: from each of them, many blanks would cost the square of their
number.
"""
GRAPH_TRACEBACK: Final = re.compile(
    r"Detected at node .* defined at \(most recent call last\):|<stack traces unavailable>"
)
"""Lines of an error in a graph before its message; input pipelines have no frames between them."""
_LOG: Final = re.compile(
    r"^(?:[IWEF]\d{4} \d\d:\d\d:\d\d"  # absl
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] "  # TensorFlow
    r"|(?:WARNING|INFO|DEBUG)\b:?|WARNING: All log messages before absl)"  # logging
)
_FATAL: Final = re.compile(r"^Fatal Python error: .")
"""First line of what `faulthandler` writes for a signal, before the stacks and a long list of modules."""
_MODULES: Final = re.compile(r"^(?:Extension modules: )?[\w.]*(?:, [\w.]+)* \(total: \d+\)$")
"""That list, of which the end of the output may have only a part."""
_VARYING: Final = re.compile(r"0x[0-9a-f]+|\d+")
"""Numbers: times, addresses, identifiers of threads and processes, steps."""

PEER_ERRORS: Final = frozenset({"UnavailableError", "AbortedError", "DeadlineExceededError", "CancelledError"})
"""TensorFlow's errors of a collective whose peer was lost."""
_LOST_CONNECTION: Final = re.compile(
    rf"^(?:\w+\.)*(?:{'|'.join(sorted(PEER_ERRORS))})\b"
    r"|connection (?:reset|closed|aborted|lost)|connection refused|socket closed|broken pipe|end of file"
    r"|deadline[ _]exceeded|statuscode\.unavailable|collective ops is aborted|coordination service|heartbeat"
    r"|\b(?:gloo|nccl)",
    re.IGNORECASE,
)


def cause_in(output: str) -> str:
    """Return the cause of a failure in one line of at most 512 characters, from the end of a program's output.

    It is the signal that `faulthandler` names, else the type and message of the exception after the last traceback,
    with the error of the operation if TensorFlow raised it in a graph, the first exception of a group, and file and
    line of a syntax error. Without a traceback, whose first lines may have been cut off, it is the error of the last
    line that names an error, or after the last frame; else the last line that is neither a log message of a library nor
    a node of a graph. Returns "" for an empty output, and for the end of one of `faulthandler`.
    """
    lines = output.splitlines()
    fatal = next(filter(_FATAL.match, reversed(lines)), "")
    if fatal or any(_MODULES.match(line.lstrip(" ,")) for line in lines):
        return fatal[:LONGEST_CAUSE]  # if its line was cut off, the exit code has the signal
    starts = [number for number, line in enumerate(lines) if _TRACEBACK.match(line)]
    raised = [number for number in starts if not (number and _IGNORED.match(lines[number - 1]))]
    cause = _raised_after(lines, raised[-1]) if raised else ""
    cause = cause or _raised_before(lines[: starts[0]] if starts else lines)
    cause = cause or (_raised_after(lines, starts[-1]) if starts else "")
    return (cause or _last_line(lines))[:LONGEST_CAUSE]


def same_cause(one: str, other: str) -> bool:
    """Return whether two causes are equal but for the numbers in them."""
    return _VARYING.sub("0", one) == _VARYING.sub("0", other)


def may_be_lost_connection(cause: str) -> bool:
    """Return whether a cause is one that the end of a peer has, by the words of TensorFlow, gRPC, Gloo and sockets.

    A server other than a peer, such as a database, leaves the same words.
    """
    return _LOST_CONNECTION.search(cause) is not None


def early_exit(completed: Sequence[str]) -> str:
    """Return the note that replicas had exited before another one failed, which needed them; "" for none."""
    if not completed:
        return ""
    names = ", ".join(completed[:MAX_NAMED]) + (" and others" if len(completed) > MAX_NAMED else "")
    return f"{names} had exited with 0 before: all replicas must take part in every step until the end"


def _raised_after(lines: Sequence[str], traceback: int) -> str:
    """Return the exception of the traceback that begins in a line; "" if the output ends before it."""
    remaining = lines[traceback + 1 :]
    return _exception_group(remaining) if _GROUP in lines[traceback] else _raise_statement(remaining)


def _raised_before(lines: Sequence[str]) -> str:
    """Return the exception of a traceback whose first lines were cut off, which end with `lines`; "" for none."""
    if any(map(_END_OF_GROUP.match, lines)) and (group := _exception_group(lines)):
        return group
    texts = [line.strip() for line in lines]
    graph = [number for number, text in enumerate(texts) if text.endswith(_GRAPH_ERROR) and not _LOG.match(text)]
    named = graph or [number for number, text in enumerate(texts) if _EXCEPTION.match(text)]
    if named:
        position = lines[max(0, named[-1] - _LINES_OF_POSITION) : named[-1]]
        frames = [line for line in position if _FRAME.match(line)]
        return _raise_statement([*frames, texts[named[-1]], *lines[named[-1] + 1 :]])
    calls = [number for number, line in enumerate(lines) if _FRAME_OF_TRACEBACK.match(line)]
    return _raise_statement(lines[calls[-1] + 1 :]) if calls else ""


def _raise_statement(lines: Sequence[str]) -> str:
    """Return the exception that follows the frames of a traceback; "" if the output ends before it."""
    unindented = (number for number, line in enumerate(lines) if line.strip() and not line[0].isspace())
    first = next((number for number in unindented if not _LOG.match(lines[number])), None)
    if first is None:
        return ""
    if _SYNTAX.match(lines[first]):
        return lines[first].strip() + _position(lines[:first])
    if not lines[first].rstrip().endswith(_GRAPH_ERROR):
        return _message(lines[first:])
    kind = lines[first].partition(":")[0]
    remaining = lines[first + 1 :]
    frames = [number for number, line in enumerate(remaining) if _FRAME.match(line)]
    body = remaining[frames[-1] + 2 if frames else 0 :]  # a frame is followed by its line of source
    texts = (text for line in body if (text := _without_nodes(line).strip()) and not _is_no_message(line))
    return f"{kind}: {next(texts, _GRAPH_ERROR)}"


def _message(lines: Sequence[str]) -> str:
    """Return the exception at the start of `lines`, with the next line of its message while one ends with a colon."""
    text = _without_nodes(lines[0]).strip()
    for line in filter(None, map(str.strip, lines[1:])):
        ends = not text.endswith(":") or len(text) >= LONGEST_CAUSE
        if ends or _TRACEBACK.match(line) or _is_no_message(line):
            break
        text = f"{text} {_without_nodes(line)}".strip()
    return text


def _position(frames: Sequence[str]) -> str:
    """Return file and line of a syntax error, which the last frame has, in the form of Python's message."""
    positions = [match for line in frames if (match := _POSITION.match(line))]
    return f" ({positions[-1][1]}, line {positions[-1][2]})" if positions else ""


def _exception_group(lines: Sequence[str]) -> str:
    """Return the exception group that follows the frames of a traceback, with the first exception that is not a group.

    If the line of the group was cut off, it is the first exception alone.
    """
    exceptions = [line[margin.end() :].strip() for line in lines if (margin := _IN_GROUP.match(line))]
    named = [text for text in exceptions if "ExceptionGroup: " not in text]
    number = 0
    while number + 2 < len(named) and _CHAIN.match(named[number + 1]):
        number += 2
    first = "".join(named[number : number + 1])
    group = next((text for text in exceptions[:1] if "ExceptionGroup: " in text), "")
    return f"{group}; the first: {first}" if group and first else group or first


def _last_line(lines: Sequence[str]) -> str:
    """Return the last line that is neither a log message of a library nor a node of a graph; else the last one."""
    filled = [line.strip() for line in lines if line.strip()]
    text = (text for line in reversed(filled) if not _LOG.match(line) and (text := _without_nodes(line).strip()))
    return next(text, "".join(filled[-1:]))


def _without_nodes(line: str) -> str:
    """Return a line without nodes; most lines have none, which is cheaper to find out first."""
    return _NODE.sub("", line) if "[[" in line or "[Op:" in line or "{{" in line else line


def _is_no_message(line: str) -> bool:
    return bool(_LOG.match(line) or GRAPH_TRACEBACK.match(line))
