"""What to do about a failure, by the reason of a failed replica or of a condition: one sentence for each.

`docs/failures.md` has the same remedies with their background.
"""

from collections.abc import Mapping
from typing import Final

REMEDIES: Final[Mapping[str, str]] = {
    "ActiveDeadlineExceeded": "raise runPolicy.activeDeadlineSeconds; time in suspension does not count",
    "ApplicationError": "an error of the program: correct the cause in the message",
    "BackoffLimitExceeded": "correct the cause of the last failure; save checkpoints more often, because each resets "
    "the count, or raise runPolicy.backoffLimit",
    "CheckpointDirectoryInUse": "wait until the job named in the message has ended, or choose another "
    "checkpoint.directory; {name} in it is replaced by the job's name",
    "CheckpointMissing": "train in the process that the job starts, and let it end by returning or by sys.exit, not by "
    "os._exit; docs/keras.md says what saves checkpoints",
    "CheckpointUnused": "none if the script saves and restores its own checkpoints; otherwise train with fit of "
    "Keras 3, and install tfdist-trainer if you build your own image",
    "ConfigError": "create the ConfigMap, Secret or key named in the message, or correct its name in the job",
    "Crash": "a signal ended the process (139 is a segmentation fault, 137 SIGKILL, 134 an assertion): read the log of "
    "the pod",
    "DeviceMissing": "check the driver and the GPUs of the node named in the message, and cordon it",
    "Disruption": "none: the cluster ended the pod; if it happens often, set priorityClassName or save checkpoints "
    "more often",
    "EvaluationDeadlineExceeded": "raise evaluation.deadlineSeconds; suspend and resume the job to evaluate again",
    "EvaluationFailed": "read the message of the condition Evaluated; evaluation.onFailure decides whether the job "
    "fails with its evaluation",
    "ExportDirectoryInUse": "wait until the job named in the message has ended, or choose another "
    "training.export.directory; {name} in it is replaced by the job's name",
    "ExportMissing": "read the message: train with fit of Keras 3 in the process that the job starts, let it end by "
    "returning, and validate for a best model; or remove training.export",
    "FailedCreate": "free the quota, or change what the policy or webhook in the message rejects",
    "FailureIgnored": "make the command exit with the script's exit code, in a shell by exec or set -eo pipefail",
    "FailurePolicy": "none: a rule of the job's failurePolicy fails it for this error",
    "GangSchedulerMissing": "install the gang scheduler or queue system named in the message, or change "
    "scheduling.gang or scheduling.queue",
    "GangSchedulerUnknown": "none if it ends within minutes; otherwise see the controller's log for the reason: its "
    "role may lack the right to list the objects named in the message",
    "ImageError": "correct the name or tag of the image, imagePullSecrets, or the access to the registry",
    "InvalidSpec": "correct the fields in the message and apply the job again",
    "InvalidUpdate": "correct the fields in the message and apply the job again; until then its last valid "
    "specification is used",
    "LeaderUnresponsive": "none if the progress continues; otherwise read the log of the leader",
    "OutOfMemory": "raise resources.limits.memory of the role, or lower the batch size",
    "PeerLost": "check the network, and the pods named in the message",
    "PodRejected": "correct the field in the message; the pods are also sent again every ten minutes",
    "Preempted": "none: the replica was asked to stop and saved a checkpoint where it could",
    "ProgressDeadlineExceeded": "check the replica named in the message, or the stacks of all replicas if it names "
    "none; raise runPolicy.progressDeadlineSeconds if steps take that long",
    "RepeatedError": "correct the error in the message: a restart would fail the same way",
    "Secondary": "none: another failure caused this one",
    "Stalled": "check the replica named in the message, or the stacks of all replicas if it names none; raise "
    "runPolicy.progressDeadlineSeconds if steps take that long",
    "StartDeadlineExceeded": "check the events of the pods for a slow image pull or volume, or raise "
    "runPolicy.startDeadlineSeconds",
    "StorageLimitExceeded": "raise resources.limits.ephemeral-storage of the role or the sizeLimit of the emptyDir, "
    "and write checkpoints and data to a volume",
    "TrainedAlone": "create, load and compile the model in strategy.scope(), and leave TF_CONFIG as it is; or set "
    "TFDIST_KERAS_FIT=alone in env, without checkpoint and training.export, if each worker should train its own model",
    "UntestedVersions": "install a Keras and a TensorFlow that the trainer was tested with, or set "
    "TFDIST_KERAS_FIT=untested in env to try the ones in the image, or off to silence this",
    "Unschedulable": "check the resources, nodeSelector, tolerations and volumes that the scheduler's message names",
    "UserError": "correct the field, file or argument in the message and create the job again",
}
"""Remedies; a reason that is missing here needs none."""

_SIGILL: Final = 132


def remedy(reason: str, exit_code: int | None = None) -> str:
    """Return the remedy for a reason; "" for an unknown one.

    Args:
        reason: of a failed replica or of a condition.
        exit_code: of the replica.
    """
    if exit_code == _SIGILL:
        return (
            "the processor lacks an instruction (SIGILL): set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 in env, or use an "
            "image for this processor"
        )
    return REMEDIES.get(reason, "")
