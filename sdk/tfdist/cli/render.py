"""`tfdist render FILE`: every object that the controller would make for the jobs in a file."""

import argparse
import sys
from typing import Any, Final

from tfdist import validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import command, jobs, manifests
from tfdist.render.objects import objects

DETAILS = """\
Prints the objects in the order in which they are made. Nothing is sent to a cluster.
Exit code: 0, 1 a job is invalid or there is none, 2 a file cannot be read."""

PLACEHOLDER_UID: Final = "00000000-0000-0000-0000-000000000000"
_COMMENT: Final = (
    f"TFDistJob {{}} has no uid yet: {PLACEHOLDER_UID} stands for the one that the API server gives it.\n"
    "To run the job, apply the TFDistJob; these objects are what the controller makes of it."
)
_DEFAULT_IMAGE: Final = "tfdist/trainer"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="YAML or JSON; a folder; - for standard input")
    parser.add_argument("-n", "--namespace", default="default", help="for jobs without one (default: default)")
    text = f"trainer image for jobs that name none, as the controller is set up (default: {_DEFAULT_IMAGE})"
    parser.add_argument("--image", default=_DEFAULT_IMAGE, help=text)
    command.add_output(parser, "yaml", "json")


def run(options: argparse.Namespace) -> int:
    """Print the objects and return the exit code."""
    found = jobs.valid(jobs.read(options.file), options.file, "render")
    if not found:
        return 1
    rendered = []
    for document in found:
        job = validation.parse(_completed(document.value, options.namespace))
        comment = "" if document.value["metadata"].get("uid") else _COMMENT.format(job.metadata.name)
        rendered += _with_comment(job, options.image, comment)
    if options.output == "json":
        manifests.write_json(sys.stdout, [made for made, _ in rendered])
    else:
        manifests.write_yaml(sys.stdout, rendered)
    return 0


def _completed(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the manifest with what the API server would add: namespace and uid."""
    given = {key: value for key, value in manifest["metadata"].items() if value}
    return manifest | {"metadata": {"namespace": namespace, "uid": PLACEHOLDER_UID} | given}


def _with_comment(job: TFDistJob, image: str, comment: str) -> list[tuple[dict[str, Any], list[str]]]:
    made = objects(job, default_image=image)
    return [(each, [comment] if comment and not number else []) for number, each in enumerate(made)]
