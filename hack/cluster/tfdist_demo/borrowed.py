"""A user's cluster, used for the tests: inspected before, and restored afterwards.

`python3 -m tfdist_demo.borrowed check|clean`, with the cluster in `KUBECONFIG`. Everything of the tests has a name of
its own (`place.TESTS`) or is in a namespace that begins like it. What the definition of TFDistJob is to a cluster there
can be only once, so if TFDist is installed the tests do not start. What a run that was killed has left is known
by its names; the next run, or `clean`, removes it.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from tfdist_cluster import console
from tfdist_cluster.errors import ClusterError, CommandError
from tfdist_demo import helm, target
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import TEST_NAMESPACES, TESTS

DEFINITION: Final = "tfdistjobs.tfdist.dev"
SWEEP_DEFINITION: Final = "tfdistsweeps.tfdist.dev"
RELEASE_NAME: Final = "meta.helm.sh/release-name"
RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"
WAIT_SECONDS: Final = 300
OF_CLUSTER: Final = ("clusterrolebinding", "clusterrole")
"""Kinds without a namespace that the chart makes, other than the definition."""


def require_free(kubectl: Kubectl) -> None:
    """Return if TFDist is not in the cluster, or only as an earlier run of the tests left it.

    Raises:
        ClusterError: TFDist is installed already.
    """
    found = kubectl.get("customresourcedefinition", DEFINITION)
    if found is None or is_ours(found):
        return
    raise ClusterError(
        f"this cluster has TFDist already: {owner(found)}. The tests install their own, and a cluster can have the "
        f"definition {DEFINITION} only once; nothing was changed. Use another cluster, or remove that installation"
    )


def is_ours(definition: Mapping[str, Any]) -> bool:
    """Return whether the tests have made the definition of TFDistJob."""
    annotations = definition["metadata"].get("annotations") or {}
    return (annotations.get(RELEASE_NAME), annotations.get(RELEASE_NAMESPACE)) == (TESTS.release, TESTS.system)


def owner(definition: Mapping[str, Any]) -> str:
    """Return a description of the definition's owner."""
    annotations = definition["metadata"].get("annotations") or {}
    if RELEASE_NAME in annotations:
        namespace = annotations.get(RELEASE_NAMESPACE, "default")
        return f"the release {annotations[RELEASE_NAME]} in the namespace {namespace}"
    return f"the definition {DEFINITION} is there, made without Helm"


def clean(kubectl: Kubectl) -> None:
    """Remove all that the tests have made, and return when it is gone; everything is tried, whatever fails.

    Raises:
        ClusterError: something could not be removed; the message names it.
    """
    left: list[str] = []
    with console.step("remove what the tests made", expected_seconds=60):
        rest = partial(_delete_volumes, names=_volumes(kubectl))
        for remove in (_jobs, _release, _namespaces, _definition, _roles, rest):
            try:
                remove(kubectl)
            except ClusterError as error:
                left.append(str(error))
    if left:
        raise ClusterError("not all of the tests' objects could be removed:\n" + "\n".join(left))


def _jobs(kubectl: Kubectl) -> None:
    """Delete all jobs while the tests' controller runs: if the definition is the tests', so are the jobs."""
    if _has_our_definition(kubectl):
        kubectl.run(
            "delete", "tfdistjobs", "--all", "--all-namespaces", "--ignore-not-found", "--wait=true",
            timeout_seconds=WAIT_SECONDS,
        )  # fmt: skip


def _release(kubectl: Kubectl) -> None:
    place = kubectl.place
    program = helm.Helm(helm.program(), kubectl.kubeconfig)
    program.run("uninstall", place.release, f"--namespace={place.system}", "--ignore-not-found", "--wait")


def _namespaces(kubectl: Kubectl) -> None:
    names = namespaces_of_tests(json.loads(kubectl.run("get", "namespaces", "--output=json")))
    if names:
        kubectl.run("delete", "namespace", *names, "--ignore-not-found", "--wait=true", timeout_seconds=WAIT_SECONDS)


def namespaces_of_tests(listed: Mapping[str, Any]) -> list[str]:
    """Return which namespaces of a list are the tests'."""
    names = (str(item["metadata"]["name"]) for item in listed["items"])
    return [name for name in names if name == TESTS.namespace or name.startswith(TEST_NAMESPACES)]


def _definition(kubectl: Kubectl) -> None:
    if _has_our_definition(kubectl):
        kubectl.run(
            "delete",
            "customresourcedefinition",
            DEFINITION,
            SWEEP_DEFINITION,
            "--ignore-not-found",
            timeout_seconds=WAIT_SECONDS,
        )


def _has_our_definition(kubectl: Kubectl) -> bool:
    found = kubectl.get("customresourcedefinition", DEFINITION)
    return found is not None and is_ours(found)


def _roles(kubectl: Kubectl) -> None:
    """Delete what Helm leaves if it could not uninstall."""
    selector = f"--selector=app.kubernetes.io/instance={kubectl.place.release},app.kubernetes.io/part-of=tfdist"
    for kind in OF_CLUSTER:
        kubectl.run("delete", kind, selector, "--ignore-not-found")


def _volumes(kubectl: Kubectl) -> list[str]:
    """Return the volumes that claims of the tests are bound to: those that a class retains are to go, too."""
    with contextlib.suppress(CommandError):
        listed = json.loads(kubectl.run("get", "persistentvolumes", "--output=json"))
        return volumes_of_tests(listed)
    return []


def volumes_of_tests(listed: Mapping[str, Any]) -> list[str]:
    """Return which volumes of a list belong to claims of the tests."""
    namespaces = {
        str(item["metadata"]["name"]): str(item["spec"].get("claimRef", {}).get("namespace", ""))
        for item in listed["items"]
    }
    return [
        name
        for name, namespace in namespaces.items()
        if namespace == TESTS.namespace or namespace.startswith(TEST_NAMESPACES)
    ]


def _delete_volumes(kubectl: Kubectl, names: list[str]) -> None:
    if names:
        kubectl.run("delete", "persistentvolume", *names, "--ignore-not-found", timeout_seconds=WAIT_SECONDS)


def borrow(chosen: target.Target) -> target.Target:
    """Return the cluster with the tests' own names, if it is not the one that is made here."""
    return chosen if chosen.own else replace(chosen, place=TESTS)


def main() -> int:
    """Check or clean the cluster of `KUBECONFIG`."""
    try:
        chosen = borrow(target.choose())
        if not chosen.own:
            kubectl = chosen.kubectl()
            clean(kubectl) if sys.argv[1:] == ["clean"] else require_free(kubectl)
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
