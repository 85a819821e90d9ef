"""Keeps bfloat16 away from processors that promise Intel AMX and do not have it.

Some virtual machines say that they have it, and end the process with SIGILL at its first multiplication in bfloat16
(github.com/uxlfoundation/oneDNN/issues/5689: oneDNN, by which TensorFlow computes, cannot tell). A process that is
forked for it tries one. Without AMX bfloat16 is slower, and right.
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
_WITHOUT: Final = "AVX512_CORE_FP16"
"""The most that oneDNN may use which is not AMX."""
_PATIENCE_SECONDS: Final = 20
_CPUS: Final = Path("/proc/cpuinfo")


def avoid_broken(environ: MutableMapping[str, str]) -> None:
    """Have TensorFlow compute without AMX where that is promised and fails; what the user has set stays.

    Must come before TensorFlow's runtime starts; takes a tenth of a second where there is AMX, and nothing elsewhere.
    """
    if ISA_ENV in environ or not _is_promised() or _ends_with() != -signal.SIGILL:
        return
    environ[ISA_ENV] = _WITHOUT
    log.event("without-amx", reason="this machine promises AMX, and a multiplication in bfloat16 ended with SIGILL")


def _is_promised() -> bool:
    try:
        return "amx_bf16" in _CPUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return False


def _ends_with() -> int:
    """Return the exit code of a process that multiplies in bfloat16; negative is a signal."""
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
