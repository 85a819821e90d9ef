"""A user's cluster, used for the tests: checked before them, and restored after them.

`python3 -m tfdist_demo.borrowed check|clean`, with the cluster in `KUBECONFIG`. All objects of the tests have separate
names (`place.TESTS`) or are in namespaces with the prefix of these names. A cluster has only one definition of
TFDistJob, so the tests do not start if TFDist is installed. The objects of a killed run are identified by their names;
the next run, or `clean`, removes them.
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
    """Check that TFDist is not installed in the cluster, except by an earlier run of the tests.

    Raises:
        ClusterError: another installation of TFDist exists.
    """
    crd = kubectl.get("customresourcedefinition", DEFINITION)
    if crd is None or is_ours(crd):
        return
    raise ClusterError(
        f"this cluster has TFDist already: {owner(crd)}. The tests install their own, and a cluster can have the "
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
    """Delete all objects of the tests and wait until they are gone; a failed step does not stop the others.

    Raises:
        ClusterError: something could not be removed; the message names it.
    """
    errors: list[str] = []
    with console.step("remove what the tests made", expected_seconds=60):
        remove_volumes = partial(_delete_volumes, names=_volumes(kubectl))
        for remove in (_jobs, _release, _namespaces, _definition, _roles, remove_volumes):
            try:
                remove(kubectl)
            except ClusterError as error:
                errors.append(str(error))
    if errors:
        raise ClusterError("not all of the tests' objects could be removed:\n" + "\n".join(errors))


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


def namespaces_of_tests(namespace_list: Mapping[str, Any]) -> list[str]:
    """Return which namespaces of a list are the tests'."""
    names = (str(item["metadata"]["name"]) for item in namespace_list["items"])
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
    definition = kubectl.get("customresourcedefinition", DEFINITION)
    return definition is not None and is_ours(definition)


def _roles(kubectl: Kubectl) -> None:
    """Delete what Helm leaves if it could not uninstall."""
    selector = f"--selector=app.kubernetes.io/instance={kubectl.place.release},app.kubernetes.io/part-of=tfdist"
    for kind in OF_CLUSTER:
        kubectl.run("delete", kind, selector, "--ignore-not-found")


def _volumes(kubectl: Kubectl) -> list[str]:
    """Return the volumes that claims of the tests are bound to: those that a class retains are deleted, too."""
    with contextlib.suppress(CommandError):
        volume_list = json.loads(kubectl.run("get", "persistentvolumes", "--output=json"))
        return volumes_of_tests(volume_list)
    return []


def volumes_of_tests(volume_list: Mapping[str, Any]) -> list[str]:
    """Return which volumes of a list belong to claims of the tests."""
    namespaces = {
        str(item["metadata"]["name"]): str(item["spec"].get("claimRef", {}).get("namespace", ""))
        for item in volume_list["items"]
    }
    return [
        name
        for name, namespace in namespaces.items()
        if namespace == TESTS.namespace or namespace.startswith(TEST_NAMESPACES)
    ]


def _delete_volumes(kubectl: Kubectl, names: list[str]) -> None:
    if names:
        kubectl.run("delete", "persistentvolume", *names, "--ignore-not-found", timeout_seconds=WAIT_SECONDS)


def borrow(cluster: target.Target) -> target.Target:
    """Return the cluster with the names of the tests, unless it is the one that is made here."""
    return cluster if cluster.own else replace(cluster, place=TESTS)


def main() -> int:
    """Check or clean the cluster of `KUBECONFIG`."""
    try:
        cluster = borrow(target.choose())
        if not cluster.own:
            kubectl = cluster.kubectl()
            clean(kubectl) if sys.argv[1:] == ["clean"] else require_free(kubectl)
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
