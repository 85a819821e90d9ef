"""A user's cluster: rejected if TFDist is installed in it, and only objects of the tests are removed."""

import json
import os
import pathlib
import sys
from typing import Any

import pytest

from tfdist_cluster.errors import ClusterError
from tfdist_demo import borrowed, target
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import DEMO, TEST_NAMESPACES, TESTS

KUBECTL = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
words = [word for word in sys.argv[1:] if not word.startswith("-")]
answer = folder / "-".join(words[:2])
if words[:2] == ["delete", "clusterrole"] and (folder / "broken").exists():
    sys.exit("the server rejects it")
print(answer.read_text() if answer.exists() else "")
"""


def crd(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": borrowed.DEFINITION, "annotations": annotations}}


OURS = crd(**{borrowed.RELEASE_NAME: TESTS.release, borrowed.RELEASE_NAMESPACE: TESTS.system})
THEIRS = crd(**{borrowed.RELEASE_NAME: "tfdist", borrowed.RELEASE_NAMESPACE: "tfdist-system"})


class Cluster:
    """A fake cluster: kubectl and helm programs that record their calls and print given answers."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        for name in ("kubectl", "helm"):
            program = folder / name
            program.write_text(KUBECTL.format(python=sys.executable, folder=str(folder)))
            program.chmod(0o755)
        self.kubectl = Kubectl(folder / "kubectl", "/nonexistent", TESTS)
        self.answer("get-namespaces", {"items": [named(n) for n in ("default", "tfdist-demo", *NAMESPACES)]})
        claims = {"pv-1": TESTS.namespace, "pv-2": "tfdist-demo"}
        bound = [named(name) | {"spec": {"claimRef": {"namespace": of}}} for name, of in claims.items()]
        self.answer("get-persistentvolumes", {"items": [*bound, named("pv-3") | {"spec": {}}]})

    def answer(self, words: str, content: object) -> None:
        (self._folder / words).write_text(json.dumps(content))

    def has(self, definition: dict[str, Any]) -> None:
        self.answer("get-customresourcedefinition", definition)

    def break_roles(self) -> None:
        (self._folder / "broken").touch()

    @property
    def calls(self) -> list[str]:
        found = self._folder / "calls"
        return found.read_text().splitlines() if found.exists() else []


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


NAMESPACES = (TESTS.namespace, TESTS.system, f"{TEST_NAMESPACES}failures-1a2b3c")


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Cluster(tmp_path)


def test_a_cluster_without_tfdist_or_with_objects_of_a_killed_run_is_accepted(cluster: Cluster) -> None:
    borrowed.require_free(cluster.kubectl)
    cluster.has(OURS)
    borrowed.require_free(cluster.kubectl)


@pytest.mark.parametrize(
    ("definition", "owner"),
    [(THEIRS, "the release tfdist in the namespace tfdist-system"), (crd(), "made without Helm")],
)
def test_a_cluster_with_tfdist_is_rejected_and_nothing_is_changed(
    cluster: Cluster, definition: dict[str, Any], owner: str
) -> None:
    cluster.has(definition)
    with pytest.raises(ClusterError, match="this cluster has TFDist already") as rejected:
        borrowed.require_free(cluster.kubectl)
    assert owner in str(rejected.value)
    assert [call for call in cluster.calls if not call.startswith("get ")] == []


def test_all_objects_of_the_tests_are_removed_and_no_others(cluster: Cluster) -> None:
    cluster.has(OURS)
    borrowed.clean(cluster.kubectl)
    deleted = [call for call in cluster.calls if call.startswith("delete ")]
    assert deleted[0].startswith("delete tfdistjobs --all ")
    assert f"delete namespace {' '.join(NAMESPACES)} " in "\n".join(deleted)
    assert any(call.startswith(f"delete customresourcedefinition {borrowed.DEFINITION}") for call in deleted)
    assert any(call.startswith("delete persistentvolume pv-1 ") for call in deleted)
    roles = [call for call in deleted if call.startswith("delete clusterrole")]
    assert len(roles) == 2
    assert all(f"instance={TESTS.release}" in call for call in roles)
    assert any(call.startswith(f"uninstall {TESTS.release} --namespace={TESTS.system}") for call in cluster.calls)


def test_the_definition_and_jobs_of_another_installation_are_kept(cluster: Cluster) -> None:
    cluster.has(THEIRS)
    borrowed.clean(cluster.kubectl)
    assert not [call for call in cluster.calls if "customresourcedefinition" in call and call.startswith("delete")]
    assert not [call for call in cluster.calls if call.startswith("delete tfdistjobs")]


def test_an_object_that_cannot_be_removed_is_reported_after_the_others_are_removed(cluster: Cluster) -> None:
    cluster.has(OURS)
    cluster.break_roles()
    with pytest.raises(ClusterError, match="the server rejects it"):
        borrowed.clean(cluster.kubectl)
    assert any(call.startswith("delete persistentvolume ") for call in cluster.calls)


def test_the_tests_have_names_of_their_own_on_a_user_s_cluster_and_those_of_the_demonstration_here() -> None:
    assert borrowed.borrow(target.choose({})).place == DEMO
    foreign = borrowed.borrow(target.choose({"KUBECONFIG": "/home/u/.kube/config"})).place
    assert foreign == TESTS
    assert not {foreign.namespace, foreign.system, foreign.release, foreign.controller} & {
        DEMO.namespace, DEMO.system, DEMO.release, DEMO.controller,
    }  # fmt: skip
