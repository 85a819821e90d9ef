"""Recognizes Katib's Experiments of TFJobs, without the models that their conversion needs."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.convert.tfjob import KIND as TFJOB_KIND

API_VERSION: Final = "kubeflow.org/v1beta1"
KIND: Final = "Experiment"


def trains_tfjobs(manifest: Mapping[str, Any]) -> bool:
    """Return whether a document is an Experiment whose trials are TFJobs."""
    if manifest.get("apiVersion") != API_VERSION or manifest.get("kind") != KIND:
        return False
    template: Any = manifest
    for name in ("spec", "trialTemplate", "trialSpec"):
        template = template.get(name) if isinstance(template, Mapping) else None
    return isinstance(template, Mapping) and template.get("kind") == TFJOB_KIND
