"""Mistakes in the labels and annotations of pod templates."""

from typing import Any, Final

from support.bad_manifests.case import LONG, PATTERN, TYPE, Bad, field, pod


def labels(name: str, path: str, value: Any, says: str, server: str | None) -> Bad:
    return field(name, f"template.metadata.{path}", value, says, server)


CASES: Final[tuple[Bad, ...]] = (
    labels("a template's label that is a number", "labels.tier", 1, "write text, numbers and true or false", TYPE),
    labels("a template's label that is too long", "labels.tier", "x" * 64, "write at most 63 characters; got 64", LONG),
    labels(
        "a template's label with a space", "labels.team", "a b", "write letters, digits, dashes, underscores", PATTERN
    ),
    labels("a template's annotation that is a boolean", "annotations.debug", True, "write text, numbers", TYPE),
    pod(
        "a template's label of the controller's",
        ".template.metadata.labels['tfdist.dev/job']",
        "labels that begin with tfdist.dev/ are the controller's",
        template={"metadata": {"labels": {"tfdist.dev/job": "x"}}},
    ),
    pod(
        "a template's label without a name",
        ".template.metadata.labels['example.com/']",
        "the key is not well-formed",
        template={"metadata": {"labels": {"example.com/": "x"}}},
    ),
    pod(
        "a template's annotation with a space",
        ".template.metadata.annotations['a b']",
        "the key is not well-formed",
        template={"metadata": {"annotations": {"a b": "x"}}},
    ),
)
