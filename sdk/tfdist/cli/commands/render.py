"""`tfdist render FILE`: prints every object that the controller would create for the jobs of a file."""

import sys
from typing import Annotated, Any, Final

import typer

from tfdist import validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import jobs, manifests
from tfdist.cli.command_line import command
from tfdist.cli.errors import CommandExitCode
from tfdist.cli.options import File, ManifestFormat
from tfdist.desired.objects import objects

PLACEHOLDER_UID: Final = "00000000-0000-0000-0000-000000000000"
_COMMENT: Final = (
    f"TFDistJob {{}} has no uid yet: {PLACEHOLDER_UID} stands for the one that the API server gives it.\n"
    "To run the job, apply the TFDistJob; these objects are what the controller makes of it."
)


@command
def render(
    file: File,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of jobs that set none.")
    ] = "default",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Trainer image of jobs that set no image.")
    ] = "tfdist/trainer",
    output: ManifestFormat = "yaml",
) -> int:
    """Print every object that the controller would create.

    The objects are in the order in which the controller creates them. Nothing is sent to a cluster.

    Exits 0, or 1 if a job is invalid or there are no jobs, 2 if the file cannot be read.
    """
    selected = jobs.select(jobs.read(file), file, "render")
    if not selected:
        return CommandExitCode.NEGATIVE
    rendered = []
    for document in selected:
        job = validation.parse(_with_defaults(document.value, namespace))
        comment = "" if document.value["metadata"].get("uid") else _COMMENT.format(job.metadata.name)
        rendered += _with_comment(job, image, comment)
    if output == "json":
        manifests.write_json(sys.stdout, [manifest for manifest, _ in rendered])
    else:
        manifests.write_yaml(sys.stdout, rendered)
    return CommandExitCode.OK


def _with_defaults(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return the manifest with namespace and uid, which the API server would add."""
    metadata = {key: value for key, value in manifest["metadata"].items() if value}
    return manifest | {"metadata": {"namespace": namespace, "uid": PLACEHOLDER_UID} | metadata}


def _with_comment(job: TFDistJob, image: str, comment: str) -> list[tuple[dict[str, Any], list[str]]]:
    rendered = objects(job, default_image=image)
    return [(item, [comment] if comment and not number else []) for number, item in enumerate(rendered)]
