"""Packages of a job: an init container installs them in a folder of the pod, on `PYTHONPATH` behind the code."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tfdist import contract, package_installation
from tfdist.api.source import SourceSpec
from tfdist.api.training import TrainingSpec
from tfdist.render import source

VOLUME: Final = "tfdist-packages"
INSTALL_CONTAINER: Final = "tfdist-install"

_TEMPORARY_PATH: Final = "/tmp"  # noqa: S108  a mount of the pod's own volume
_RESOLVER: Final = "timeout:2 attempts:1"
"""A name server without an answer delays each try of pip by 10 s: by default it is 50 s, with the search domains of a
pod."""
_PROXIES: Final = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})
_REFERENCE: Final = re.compile(r"\$\(([^()\s]{1,253})\)")


def overlay(
    training: TrainingSpec | None,
    default_image: str,
    requested: Mapping[str, Any],
    temporary_volume: str,
    *,
    bundled: bool,
    as_root: bool = False,
) -> dict[str, Any]:
    """Return the part of the pod template that installs the packages; empty for a job without `training.requirements`.

    Args:
        training: the job's `training`.
        default_image: image of a container without one.
        requested: the container `tensorflow` without this: its image installs the packages, as the version of its
            Python decides which wheels fit.
        temporary_volume: volume of the pod that pip unpacks wheels to.
        bundled: whether it is the trainer's image, with the program that explains pip's errors.
        as_root: whether the pod sets the user 0, which the kubelet rejects with `runAsNonRoot`.
    """
    code = training.source if training else None
    if training is None or code is None or training.requirements is None:
        return {}
    mount = {"name": VOLUME, "mountPath": source.PACKAGES_PATH}
    install = {
        "name": INSTALL_CONTAINER,
        "image": requested.get("image", default_image),
        "command": _command(training.requirements, code, bundled=bundled),
        "env": [{"name": "RES_OPTIONS", "value": _RESOLVER}, *_settings_of_pip(requested.get("env", ()))],
        "securityContext": _security(bundled=bundled, as_root=as_root),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": source.VOLUME, "mountPath": source.MOUNT_PATH, "readOnly": True},
            mount,
            {"name": temporary_volume, "mountPath": _TEMPORARY_PATH},
        ],
    }
    if "imagePullPolicy" in requested:
        install["imagePullPolicy"] = requested["imagePullPolicy"]
    main = {"name": contract.MAIN_CONTAINER, "volumeMounts": [mount | {"readOnly": True}]}
    return {
        "spec": {
            "containers": [main],
            "initContainers": [install],
            "volumes": [{"name": VOLUME, "emptyDir": {}}],
        }
    }


def _command(requirements: str, code: SourceSpec, *, bundled: bool) -> list[str]:
    path = f"{source.code_directory(code)}/{requirements}"
    if bundled:
        return ["python", "-m", package_installation.MODULE, path, source.PACKAGES_PATH]
    return ["python", *package_installation.pip_arguments(path, source.PACKAGES_PATH)]


def _security(*, bundled: bool, as_root: bool) -> dict[str, Any]:
    result = source.init_security(as_root=as_root)
    if not bundled:
        del result["runAsNonRoot"]  # most images of others run as root (ADR 8)
    return result


def _settings_of_pip(env: Any) -> list[Mapping[str, Any]]:
    """Return the variables that pip reads: its own and the proxies, with the variables that they refer to."""
    wanted: set[str] = set()
    result = []
    for variable in reversed(list(env)):  # a variable refers to earlier ones
        name = variable["name"]
        if name.startswith("PIP_") or name.lower() in _PROXIES or name in wanted:
            result.append(variable)
            wanted.update(_REFERENCE.findall(variable.get("value") or ""))
    return result[::-1]
