"""Disables Intel AMX for bfloat16 on machines that advertise it and do not support it.

Some virtual machines list AMX among the flags of the CPU, and their first multiplication in bfloat16 ends the process
with SIGILL (github.com/uxlfoundation/oneDNN/issues/5689: oneDNN, TensorFlow's library for it, cannot detect this). A
forked process tries one multiplication. Without AMX bfloat16 is slower and correct.
"""

import faulthandler
import os
import signal
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

import tensorflow as tf

from tfdist_trainer import log

ISA_ENV: Final = "ONEDNN_MAX_CPU_ISA"
_NO_AMX: Final = "AVX512_CORE_FP16"
"""The highest instruction set of oneDNN below AMX."""
_PATIENCE_SECONDS: Final = 20
_CPUS: Final = Path("/proc/cpuinfo")


def disable_broken_amx(environ: MutableMapping[str, str]) -> None:
    """Disable AMX if it is advertised and fails; a value set by the user stays.

    To be called before TensorFlow's runtime starts; takes 0.1 s on machines with AMX, and no time on others.
    """
    if ISA_ENV in environ or not _is_advertised() or _trial_exit_code() != -signal.SIGILL:
        return
    environ[ISA_ENV] = _NO_AMX
    log.event("amx-disabled", reason="the machine advertises AMX, and a multiplication in bfloat16 ended with SIGILL")


def _is_advertised() -> bool:
    try:
        return "amx_bf16" in _CPUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def _trial_exit_code() -> int:
    """Return the exit code of a process that multiplies in bfloat16; negative is a signal."""
    # In a process of its own, which may die by SIGILL.
    pid = os.fork()
    if pid == 0:
        try:
            faulthandler.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_PATIENCE_SECONDS)
            tf.config.set_visible_devices([], "GPU")
            square = tf.ones([64, 64], tf.bfloat16)
            tf.matmul(square, square).numpy()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
