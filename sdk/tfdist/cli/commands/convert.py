"""`tfdist convert FILE...`: converts TFJobs to TFDistJobs, and Experiments of TFJobs to TFDistSweeps, with notes."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfdist import convert as conversions
from tfdist import validation
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli import documents, manifests
from tfdist.cli.command_line import command
from tfdist.cli.documents import Document, DocumentKind, UnknownKind, classify
from tfdist.cli.errors import CommandExitCode, DocumentError
from tfdist.cli.findings import Finding, finding
from tfdist.cli.options import Files, ManifestFormat
from tfdist.cli.output import message
from tfdist.convert import CannotConvert, Conversion, PodLabels, notes_on_other, tfjob, trains_tfjobs
from tfdist.validation import ValidationFailed


@command
def convert(files: Files, output: ManifestFormat = "yaml") -> int:
    """Convert TFJobs to TFDistJobs, and Katib Experiments of TFJobs to TFDistSweeps.

    Prints all documents in order: converted ones with notes as comments, others unchanged. The notes are also written
    to standard error as FILE:LINE: PATH: MESSAGE, with lines and paths of the TFJob.

    Exits 0, or 1 if a TFJob cannot be converted or its result is invalid, 2 if a file cannot be read.
    """
    unreadable: list[DocumentError] = []
    inputs = list(documents.read_all(files, unreadable.append))
    jobs = dict(item for document in inputs for item in _pod_labels(document))
    results = [_result(item, jobs) for item in inputs]
    if output == "json":
        manifests.write_json(sys.stdout, [r.manifest for r in results if r.manifest is not None])
    else:
        manifests.write_yaml(sys.stdout, [(r.manifest, list(r.comments())) for r in results])
    # a terminal shows the notes after the result
    sys.stdout.flush()
    for note in (note for result in results for note in result.notes):
        note.print(sys.stderr)
    for error in unreadable:
        message(error)
    if unreadable:
        return CommandExitCode.FAILED
    return CommandExitCode.NEGATIVE if any(result.failed for result in results) else CommandExitCode.OK


@dataclass
class _Result:
    """Result of one document; without a manifest if the conversion failed."""

    manifest: dict[str, Any] | None
    heading: str = ""
    failed: bool = False
    notes: list[Finding] = field(default_factory=list)

    def comments(self) -> Iterator[str]:
        """Yield the comments above the manifest, without line numbers of the original."""
        if self.notes:
            yield self.heading
        for note in self.notes:
            path = f"{note.path}: " if note.path else ""
            yield f"- {path}{note.message}"


def _result(document: Document, jobs: PodLabels) -> _Result:
    try:
        kind = classify(document.value)
        if kind is DocumentKind.OTHER and not trains_tfjobs(document.value):
            return _unchanged(document, jobs)
        if kind in {DocumentKind.JOB, DocumentKind.SWEEP}:
            return _Result(document.value)
    except UnknownKind as error:
        return _failure(document, [(error.path, error.message)])
    try:
        conversion = (_converted_experiment if kind is DocumentKind.OTHER else conversions.convert)(document.value)
    except CannotConvert as error:
        return _failure(document, [(problem.path, problem.message) for problem in error.problems])
    notes = [finding(document, note.path, note.message) for note in conversion.notes]
    invalid = [finding(document, "", text) for text in _validation_errors(conversion.manifest)]
    heading = f"Converted from {_name(document)}. What changes:"
    return _Result(conversion.manifest, heading, bool(invalid), notes + invalid)


def _converted_experiment(manifest: dict[str, Any]) -> Conversion:
    from tfdist.convert.experiment import convert_experiment  # noqa: PLC0415  TFJobs do not need the models of sweeps

    return convert_experiment(manifest)


def _unchanged(document: Document, jobs: PodLabels) -> _Result:
    """Return an unchanged document, with notes on its references to features that the jobs no longer have."""
    notes = [finding(document, note.path, note.message) for note in notes_on_other(document.value, jobs)]
    return _Result(document.value, f"{_name(document)} is unchanged. What to correct:", notes=notes)


def _failure(document: Document, problems: list[tuple[str, str]]) -> _Result:
    notes = [finding(document, path, message) for path, message in problems]
    return _Result(None, f"{_name(document)} could not be converted:", failed=True, notes=notes)


def _validation_errors(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield the validation errors of a converted job or sweep."""
    try:
        if manifest["kind"] == SWEEP_KIND:
            from tfdist.validation.sweep import parse_sweep  # noqa: PLC0415  as above

            parse_sweep(manifest)
        else:
            validation.parse(manifest)
    except ValidationFailed as error:
        for problem in error.problems:
            yield f"the converted {manifest['kind']} is invalid, correct it there: {problem}"


def _pod_labels(document: Document) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yield the name of a TFJob that can be converted, and the labels of the pod template of each replica type."""
    try:
        if classify(document.value) is DocumentKind.TFJOB:
            job = tfjob.read(document.value, lambda _path, _message: None)[0]
            yield job.metadata.name, [r.template.metadata.labels for r in job.spec.tf_replica_specs.values()]
    except (UnknownKind, CannotConvert):
        return


def _name(document: Document) -> str:
    metadata = document.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.value.get('kind', 'document')} {name or document.number}"
