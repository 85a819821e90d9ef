"""Broken rules between strategies and roles."""

from typing import Any, Final

from support.bad_manifests.case import Bad, rule
from support.factories import CHECKPOINT

PS: Final[dict[str, Any]] = {"strategy": "ParameterServer", "chief": {}, "ps": {}}

CASES: Final[tuple[Bad, ...]] = (
    rule(
        "parameter servers with mirrored workers",
        ".ps",
        "ps requires strategy ParameterServer or Custom; change strategy, or remove ps",
        ps={},
    ),
    rule(
        "no parameter server",
        ".ps",
        "strategy ParameterServer requires a parameter server; add ps: {replicas: 1}",
        strategy="ParameterServer",
        chief={},
    ),
    rule(
        "parameter servers without workers",
        ".worker",
        "strategy ParameterServer requires a worker; add worker: {replicas: 1}",
        **PS,
        without=["worker"],
    ),
    rule(
        "parameter servers without a chief",
        ".chief",
        "strategy ParameterServer requires a chief, which coordinates the workers; add chief: {}",
        strategy="ParameterServer",
        ps={},
    ),
    rule(
        "parameter servers with a chief of no replica",
        ".chief",
        "strategy ParameterServer requires a chief, which coordinates the workers; add chief: {}",
        strategy="ParameterServer",
        ps={},
        chief={"replicas": 0},
    ),
    rule(
        "one device, two workers",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="OneDevice",
    ),
    rule(
        "one device, chief and worker",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="OneDevice",
        chief={},
        worker={},
    ),
    rule(
        "independent replicas of a program",
        ".training.program",
        "strategy Independent runs a script or an image",
        strategy="Independent",
    ),
    rule(
        "independent replicas with a checkpoint",
        ".strategy",
        "strategy Independent has no common model to save or to evaluate; remove checkpoint",
        strategy="Independent",
        training={"script": "/code/search.py"},
        checkpoint=CHECKPOINT,
    ),
    rule(
        "independent replicas with a parameter server",
        ".ps",
        "ps requires strategy ParameterServer or Custom; change strategy, or remove ps",
        strategy="Independent",
        training={"script": "/code/search.py"},
        ps={},
    ),
    rule(
        "one machine, two workers",
        ".worker.replicas",
        "strategies OneDevice and Mirrored run one replica",
        strategy="Mirrored",
    ),
)
