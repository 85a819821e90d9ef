"""Names of objects within the cluster: the keys of the work queue and the caches."""

from typing import Final, NamedTuple

ALL_NAMESPACES: Final = ""
"""In place of a namespace: all of them."""


class NamespacedName(NamedTuple):
    """Namespace and name of an object, such as a job (controller-runtime's `types.NamespacedName`)."""

    namespace: str
    name: str
