"""The TensorFlow settings of a job (`spec.runtime`) that must be applied before TensorFlow is imported.

`read` validates them without importing TensorFlow, `prepare` sets the environment variables that TensorFlow and Keras
read on import, and `strategies.devices` applies the rest. Every field is applied by one of them: no setting of a job
may be ignored silently.
"""

import os
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import pydantic

from tfdist.api.training import RuntimeSpec
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.private_directory import private_directory

LEGACY_KERAS_ENV: Final = "TF_USE_LEGACY_KERAS"
"""TensorFlow's own environment variable: 1 makes `tf.keras` the package `tf_keras`."""


def read(settings: Mapping[str, Any]) -> RuntimeSpec:
    """Return `spec.runtime` from `TFDIST_JOB`, with defaults for absent fields.

    Raises:
        ConfigurationError: a field is wrong, excludes another one, or this image is older than the field.
    """
    try:
        valid = RuntimeSpec.model_validate(settings)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["runtime", *(str(part) for part in first["loc"])])
        # A setting that is ignored would be worse than a job that does not start.
        if first["type"] == "extra_forbidden":
            raise ConfigurationError(f"{path}: this trainer image knows no such setting; use a newer image") from None
        raise ConfigurationError(f"{path}: {first['msg']}, not {first['input']!r}") from None
    for rule in RuntimeSpec.cross_field_rules:
        if not rule.python(valid):
            raise ConfigurationError(f"runtime{rule.path}: {rule.message}")
    return valid


def for_servers(settings: RuntimeSpec) -> RuntimeSpec:
    """Return the settings of a gang with parameter servers: XLA cannot compile steps on their variables.

    Raises:
        ConfigurationError: `runtime.xla` is `On`.
    """
    if settings.xla == "On":
        raise ConfigurationError(
            "runtime.xla: XLA cannot compile steps on variables that parameter servers keep; use Auto or Off"
        )
    return settings.model_copy(update={"xla": "Off"})


def prepare(environ: MutableMapping[str, str], settings: RuntimeSpec, config: Mapping[str, Any] | None = None) -> None:
    """Set the variables that TensorFlow and Keras read on import; variables set by the user are kept.

    The configuration of the program, not validated yet, may require a model of `tf_keras`.

    The root file system is read-only and the user may have no home directory, so Keras gets one under the temporary
    directory, of which no other user can make settings.

    Raises:
        ConfigurationError: another user has made that directory.
    """
    # Errors only: the distributed iterator warns in each epoch that its generator cannot be optimized.
    # The placement of operations is logged at level INFO.
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "0" if settings.log_device_placement else "2")
    environ.setdefault("KERAS_BACKEND", "tensorflow")
    if "KERAS_HOME" not in environ:
        environ["KERAS_HOME"] = str(private_directory(f"keras-{os.geteuid()}"))
    environ.setdefault("MPLCONFIGDIR", environ["KERAS_HOME"])
    # Only `tf_keras` works with TensorFlow's partitioner.
    if config and config.get("minShardBytes") is not None:
        environ[LEGACY_KERAS_ENV] = "1"
    # Otherwise the coordinator of parameter servers waits for a lost worker forever.
    environ.setdefault("GRPC_FAIL_FAST", "use_caller")
