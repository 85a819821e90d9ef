"""This machine, as a run of the current process uses it."""

import os
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from socket import gethostname
from typing import Final

from tfdist import contract
from tfdist.local.env import inherited
from tfdist.local.gpus import devices
from tfdist.local.job import Machine

_NOT_INHERITED: Final = (
    contract.JOB_ENV,
    contract.TF_CONFIG_ENV,
    contract.REPORT_PORT_ENV,
    contract.TERMINATION_LOG_ENV,
)


def this_machine(
    environ: Mapping[str, str] = os.environ, entry_point: tuple[str, ...] = (), *, launcher: bool = False
) -> Machine:
    """Return this machine with the environment of this process.

    Args:
        environ: variables of the user.
        entry_point: command that replaces the entry point of an image.
        launcher: whether gangs restart in place.
    """
    environment = inherited(environ, str(Path(sys.executable).parent), _NOT_INHERITED)
    return Machine(
        host=gethostname(),
        inherited=environment,
        entry_point=entry_point,
        gpus=devices(environment),
        launcher=launcher,
        launcher_key=secrets.token_hex(32),
    )
