"""Applies the TensorFlow settings of a job (`spec.runtime`) to this process.

All of it comes before TensorFlow's first operation: after that devices and threads are fixed.
"""

import os
from collections.abc import Mapping
from typing import Final

import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist.contract import Role
from tfdist_trainer import keras_compat, log
from tfdist_trainer.errors import ConfigurationError, DeviceMissingError, UsageError
from tfdist_trainer.strategies import amx_workaround
from tfdist_trainer.upstream import eager_context, iterator_deletion

LOGICAL_CPUS_ENV: Final = "TFDIST_LOGICAL_CPUS"
"""Environment variable: number of logical devices of the CPU, to run code for several devices without GPUs."""

MAX_LOGICAL_CPUS: Final = 64


def configure(settings: RuntimeSpec, role: Role, gpus: int | None = None) -> None:
    """Apply everything in `settings` that concerns a process as a whole, and log the devices that remain.

    Args:
        settings: settings of the job.
        role: role of this replica.
        gpus: number of GPUs that its container is limited to.

    Raises:
        ConfigurationError: `visibleDevices` names a GPU that does not exist, this TensorFlow is built without CUDA,
            or TensorFlow has already been started by the import of the user's program.
        DeviceMissingError: TensorFlow sees fewer GPUs than the container has.
    """
    if settings.mixed_precision == "bfloat16":
        # Before the runtime: oneDNN reads the variable once.
        amx_workaround.disable_broken_amx(os.environ)
    try:
        _divide_cpu(os.environ.get(LOGICAL_CPUS_ENV))
        _threads(settings)
        # Training on the CPU by mistake would occupy GPUs for days.
        _check_gpus(gpus or 0, os.environ)
        _choose_gpus(settings, role)
        _limit_memory(settings)
    except RuntimeError as error:
        raise ConfigurationError(
            "training.program: its module runs TensorFlow operations while it is imported, before devices are set "
            f"up; move them into the program's methods ({error})"
        ) from None
    tf.debugging.set_log_device_placement(settings.log_device_placement)
    if settings.mixed_precision is not None:
        keras_compat.keras.mixed_precision.set_global_policy(f"mixed_{settings.mixed_precision}")
    tf.config.experimental.enable_tensor_float_32_execution(settings.tensor_float32)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    # The deletion of an iterator may take up to a minute (ADR 41).
    iterator_deletion.install()
    cpus, tf32 = int(os.environ.get(LOGICAL_CPUS_ENV, "1")), tf.config.experimental.tensor_float_32_execution_enabled()
    log.event("devices", CPU=cpus, GPU=_gpus(), tensorFloat32=tf32)


def communication(settings: RuntimeSpec) -> tf.distribute.experimental.CommunicationOptions:
    """Return how members exchange gradients.

    Raises:
        ConfigurationError: `NCCL` without a GPU.
    """
    kinds = tf.distribute.experimental.CommunicationImplementation
    if settings.collective == "NCCL" and not tf.config.get_visible_devices("GPU"):
        raise ConfigurationError("runtime.collective: NCCL exchanges between GPUs, and this replica has none; use Auto")
    kind = {"Auto": kinds.AUTO, "Ring": kinds.RING, "NCCL": kinds.NCCL}[settings.collective]
    return tf.distribute.experimental.CommunicationOptions(implementation=kind)


def _divide_cpu(text: str | None) -> None:
    if text is None:
        return
    if not text.isdecimal() or not 1 <= int(text) <= MAX_LOGICAL_CPUS:
        raise UsageError(f"{LOGICAL_CPUS_ENV}: {text!r} is not a number from 1 to {MAX_LOGICAL_CPUS}")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * int(text))


def _threads(settings: RuntimeSpec) -> None:
    if settings.intra_op_threads is not None:
        tf.config.threading.set_intra_op_parallelism_threads(settings.intra_op_threads)
    if settings.inter_op_threads is not None:
        tf.config.threading.set_inter_op_parallelism_threads(settings.inter_op_threads)


def _check_gpus(count: int, environ: Mapping[str, str]) -> None:
    """Reject a replica that would compute on the CPU although it occupies GPUs.

    With `CUDA_VISIBLE_DEVICES` the devices were chosen explicitly, for instance by a local run without enough GPUs.
    """
    if not count or "CUDA_VISIBLE_DEVICES" in environ:
        return
    if not tf.test.is_built_with_cuda():
        raise ConfigurationError(
            f"image: this replica has {count} GPUs and its TensorFlow is built without CUDA; use an image with CUDA, "
            "such as tfdist/trainer-gpu, or remove nvidia.com/gpu from its limits"
        )
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus < count:
        raise DeviceMissingError(
            f"TensorFlow sees {gpus or 'none'} of the {count} GPUs of this replica: check the NVIDIA driver and the "
            "container runtime of the node, and the lines about CUDA libraries above; CUDA_VISIBLE_DEVICES=-1 in its "
            "env trains on the CPU"
        )


def _choose_gpus(settings: RuntimeSpec, role: Role) -> None:
    """Make only the requested GPUs visible; a parameter server computes nothing and has none."""
    if role is Role.PS:
        tf.config.set_visible_devices([], "GPU")
        return
    if settings.visible_devices is None:
        return
    gpus = tf.config.list_physical_devices("GPU")
    if absent := [number for number in settings.visible_devices if number >= len(gpus)]:
        raise ConfigurationError(
            f"runtime.visibleDevices: there is no GPU {absent[0]}; this replica has {len(gpus) or 'none'}, "
            "numbered from 0"
        )
    tf.config.set_visible_devices([gpus[number] for number in settings.visible_devices], "GPU")


def _limit_memory(settings: RuntimeSpec) -> None:
    """Bound the memory of every visible GPU, or let it grow: TensorFlow allows both only with a fraction."""
    if settings.gpu_memory_fraction is not None:
        eager_context.limit_gpu_memory(settings.gpu_memory_fraction)
    for gpu in tf.config.get_visible_devices("GPU"):
        if settings.gpu_memory_limit_mib is not None:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=settings.gpu_memory_limit_mib)
            tf.config.set_logical_device_configuration(gpu, [limit])
        else:
            tf.config.experimental.set_memory_growth(gpu, settings.gpu_memory_growth)


def _gpus() -> str | None:
    """Return the number of visible GPUs and their models; None if there is none."""
    visible = tf.config.get_visible_devices("GPU")
    models = {tf.config.experimental.get_device_details(gpu).get("device_name", "") for gpu in visible}
    return f"{len(visible)} {' '.join(sorted(models))}".rstrip() if visible else None
