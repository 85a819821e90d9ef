"""The definitions of other gang schedulers' PodGroups, as far as the API server needs them: any content is valid."""

from collections.abc import Iterator
from contextlib import contextmanager

from support.api import Api
from support.polling import wait_for
from tfdist.render.owned_kind import OwnedKind

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextmanager
def served(api: Api, kind: OwnedKind) -> Iterator[None]:
    """Have an API server serve a kind until the block ends."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": kind.api_version.rpartition("/")[2], "served": True, "storage": True, "schema": schema}
    names = {"kind": kind.kind, "plural": kind.plural}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    # The API server protects the groups of Kubernetes: this is how scheduler-plugins passes.
    meta = {"name": kind.resource, "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    api.do("POST", _DEFINITIONS, definition | {"metadata": meta, "spec": spec})
    try:
        wait_for("the kind to be served", lambda: api.send("GET", f"/{kind.path}/{kind.plural}").ok)
        yield
    finally:
        api.do("DELETE", f"{_DEFINITIONS}/{kind.resource}")
        wait_for("the kind to be gone", lambda: not api.send("GET", f"/{kind.path}").ok)
