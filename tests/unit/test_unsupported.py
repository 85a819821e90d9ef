"""What a valid job may say and this controller does not act on is refused, and nothing else is."""

from typing import Any

import pytest

from tfdist.validation import parse
from tfdist_operator.policy.unsupported import unsupported

GIT = {"repository": "https://example.org/team/code.git", "revision": "v1", "directory": "src"}


def paths(**spec: Any) -> list[str]:
    manifest = {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": "job"},
        "spec": {"worker": {"replicas": 2}, "training": {"program": "mine:Line"}} | spec,
    }
    return [problem.path for problem in unsupported(parse(manifest))]


@pytest.mark.parametrize(
    "source", [{"git": GIT}, {"configMap": {"name": "code"}}, {"persistentVolumeClaim": {"claimName": "code"}}]
)
def test_code_may_come_from_every_source(source: dict[str, Any]) -> None:
    assert paths(training={"program": "mine:Line", "source": source}) == []


def test_what_has_no_effect_is_refused() -> None:
    assert paths(scheduling={"gang": "Kueue"}) == ["spec.scheduling.gang"]
