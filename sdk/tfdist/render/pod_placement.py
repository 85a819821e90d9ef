"""What an admission by Kueue adds to pods, so that they run on the nodes whose quota they use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.render.metadata import Manifest


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """Fields of pods that an admission sets."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def merge(self, *others: "PodPlacement") -> "PodPlacement":
        """Return the union of this one and others; of two values for one key the later wins."""
        result = self
        for other in others:
            result = PodPlacement(
                {**result.node_selector, **other.node_selector},
                (*result.tolerations, *other.tolerations),
                {**result.labels, **other.labels},
                {**result.annotations, **other.annotations},
            )
        return result

    def apply_to(self, template: Manifest) -> Manifest:
        """Return a pod template with these fields; the input is not modified."""
        meta, spec = template.get("metadata", {}), template["spec"]
        placed = {
            "nodeSelector": {**spec.get("nodeSelector", {}), **self.node_selector},
            "tolerations": [*spec.get("tolerations", ()), *self.tolerations],
        }
        added = {
            "labels": {**meta.get("labels", {}), **self.labels},
            "annotations": {**meta.get("annotations", {}), **self.annotations},
        }
        return {
            **template,
            "metadata": {**meta, **{name: value for name, value in added.items() if value}},
            "spec": {**spec, **{name: value for name, value in placed.items() if value}},
        }
