"""Errors in the labels and annotations of pod templates."""

from typing import Any, Final

from support.bad_manifests.case import LONG, PATTERN, TYPE, Bad, field, pod


def labels(name: str, path: str, value: Any, message: str, server: str | None) -> Bad:
    return field(name, f"template.metadata.{path}", value, message, server)


CASES: Final[tuple[Bad, ...]] = (
    labels(
        "a template's label that is a number", "labels.tier", 1, "must be a string; quote numbers and booleans", TYPE
    ),
    labels(
        "a template's label that is too long",
        "labels.tier",
        "x" * 64,
        "Too long: 64 characters: must have at most 63 characters",
        LONG,
    ),
    labels(
        "a template's label with a space",
        "labels.team",
        "a b",
        "must be a label value: letters, digits, '-', '_' and '.', with a letter or digit first and last",
        PATTERN,
    ),
    labels(
        "a template's annotation that is a boolean",
        "annotations.debug",
        True,
        "must be a string; quote numbers and booleans",
        TYPE,
    ),
    pod(
        "a template's label of the controller's",
        ".template.metadata.labels['tfdist.dev/job']",
        "Forbidden: the prefix tfdist.dev/ is reserved; use another label",
        template={"metadata": {"labels": {"tfdist.dev/job": "x"}}},
    ),
    pod(
        "a template's label without a name",
        ".template.metadata.labels['example.com/']",
        "the key must be a qualified name",
        template={"metadata": {"labels": {"example.com/": "x"}}},
    ),
    pod(
        "a template's annotation with a space",
        ".template.metadata.annotations['a b']",
        "the key must be a qualified name",
        template={"metadata": {"annotations": {"a b": "x"}}},
    ),
)
