"""Generates the reference of TFDistSweep from the models, as `reference` does for TFDistJob."""

from typing import Final

from pages import ROOT, filled, listed, texts
from reference import Objects, columns, identity, transitions

from tfdist.api.crd import SWEEP, structural
from tfdist.api.sweep_resource import TRIAL_VARIABLES
from tfdist.api.sweep_status import SweepConditionType, SweepPhase, TrialPhase
from tfdist.api.transitions import SWEEP_TRANSITION_RULES
from tfdist.api.v1 import TFDistJobSpec

EXAMPLE: Final = ROOT / "crds" / "samples" / "sweep.yaml"
JOB_SPEC: Final = "api.md#spec"


def page() -> str:
    """Return the content of `docs/reference/sweep.md`."""
    text_of = texts()
    parts = {
        **identity(SWEEP, EXAMPLE),
        "spec": _section("Spec", "spec."),
        "status": _section("Status", "status."),
        "transitions": transitions(SWEEP_TRANSITION_RULES),
        "phases": listed("phase", {each: text_of["sweep_phases"][each] for each in map(str, SweepPhase)}),
        "conditions": listed("condition", {c: text_of["sweep_conditions"][c] for c in map(str, SweepConditionType)}),
        "trial_phases": listed("phase", {each: text_of["trial_phases"][each] for each in map(str, TrialPhase)}),
        "columns": columns(SWEEP),
        "labels": listed("label", text_of["trial_labels"]),
        "variables": listed("variable", {name: text_of["trial_variables"][name] for name in TRIAL_VARIABLES}),
    }
    return filled("sweep_reference_template.md", parts)


def _section(title: str, path: str) -> str:
    model = SWEEP.spec if title == "Spec" else SWEEP.status
    objects = Objects(with_defaults=title == "Spec", elsewhere={TFDistJobSpec: JOB_SPEC})
    objects.add(model, structural(model), title, 2, path)
    return "\n".join(objects.lines)
