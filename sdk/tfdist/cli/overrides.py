"""Values of the option `--set PATH=VALUE`, in YAML."""

from collections.abc import Sequence
from typing import Any

from tfdist.cli import yaml_loader
from tfdist.cli.errors import CommandError, DocumentError


def parse(assignments: Sequence[str]) -> dict[str, Any]:
    """Return the values of `PATH=VALUE` by path; a value is read as in a manifest: `3`, `true`, `"3"`, `[1, 2]`.

    Raises:
        CommandError: there is no `=`, or the value is malformed.
    """
    return dict(map(_parse, assignments))


def _parse(assignment: str) -> tuple[str, Any]:
    path, equals, text = assignment.partition("=")
    if not path or not equals:
        raise CommandError(f"--set {assignment}: write PATH=VALUE, such as training.config.epochs=3")
    try:
        return path, next((value for value, _ in yaml_loader.load(text, "--set")), None)
    except DocumentError as error:
        raise CommandError(
            f"--set {assignment}: {error.message}; quote a value that is text: '{path}=\"...\"'"
        ) from None
