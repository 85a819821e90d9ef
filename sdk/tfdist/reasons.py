"""Reasons of conditions and events that the controller writes, each with its row in `docs/reasons.md`.

A condition or event about a failed replica has the reason of the failure instead, from
`tfdist.failure_classification`.
"""

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """A reason with its documentation: the types of the conditions or events that have it, and its meaning."""

    types: str
    meaning: str

    def __new__(cls, value: str, types: str, meaning: str) -> Self:
        """Return the member `value` with its documentation."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.types, member.meaning = types, meaning
        return member


class ConditionReason(Reason):
    """Reason of a condition."""

    STARTING = "Starting", "`PodsReady=False`", "pods are being created, scheduled or started"
    ALL_REPLICAS_RUNNING = (
        "AllReplicasRunning",
        "`PodsReady=True`, `Running=True`, `Restarting=False`",
        "all replicas run or have ended; the message names those that have ended and those that are not ready",
    )
    FAILED_CREATE = (
        "FailedCreate",
        "`PodsReady=False`, `Failed=True`",
        "a pod cannot be created: a quota, a policy, a missing permission of the controller, another pod of that name, "
        "or an invalid specification. `Failed` after `startDeadlineSeconds`",
    )
    CHECKPOINT_DIRECTORY_IN_USE = (
        "CheckpointDirectoryInUse",
        "`PodsReady=False`, `Failed=True`",
        "another job writes into `checkpoint.directory`; the message names it. The job starts after its end. `Failed` "
        "after `startDeadlineSeconds`",
    )
    EXPORT_DIRECTORY_IN_USE = (
        "ExportDirectoryInUse",
        "`PodsReady=False`, `Failed=True`",
        "another job writes into `training.export.directory`, or its default; the message names it. The job starts "
        "after its end. `Failed` after `startDeadlineSeconds`",
    )
    IMAGE_ERROR = (
        "ImageError",
        "`PodsReady=False`, `Failed=True`",
        "an image cannot be pulled; the message names the field. `Failed` after the start deadline",
    )
    CONFIG_ERROR = (
        "ConfigError",
        "`PodsReady=False`, `Failed=True`",
        "a container cannot be created, as without its ConfigMap or Secret, also one of a volume. `Failed` after the "
        "start deadline",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "`PodsReady=False`, `Failed=True`",
        "no node can take a pod. `Failed` after `startDeadlineSeconds`",
    )
    GANG_SCHEDULER_MISSING = (
        "GangSchedulerMissing",
        "`PodsReady=False`, `Failed=True`",
        "the cluster lacks the gang scheduler of `scheduling.gang`, or that of `scheduling.queue`; the job starts when "
        "it is there. `Failed` after `startDeadlineSeconds`",
    )
    GANG_SCHEDULER_UNKNOWN = (
        "GangSchedulerUnknown",
        "`PodsReady=False`",
        "the API of the gang scheduler cannot be read, so that it is not known whether the cluster has it; no pod is "
        "created until it can, and `startDeadlineSeconds` does not run",
    )
    PODS_READY_TIMEOUT = (
        "PodsReadyTimeout",
        "`PodsReady=False`",
        "no gang scheduler starts the gang, some replicas had nodes for `scheduling.timeoutSeconds` while others had "
        "none, and other jobs wait for nodes: the gang has released its nodes and starts again after a delay. "
        "Not counted",
    )
    START_DEADLINE_EXCEEDED = (
        "StartDeadlineExceeded",
        "`Failed=True`, `Evaluated=False`",
        "a replica has not started within `startDeadlineSeconds`, without a known reason",
    )
    RESTARTING = "Restarting", "`PodsReady=False`", "the next attempt begins; the message has the time and the cause"
    IN_PLACE_RESTART = (
        "InPlaceRestart",
        "`Restarting=True`",
        "the launchers restart the training processes; the pods stay",
    )
    REPLICA_MISSING = (
        "ReplicaMissing",
        "`Running=False`, `Restarting=True`",
        "training waits for the replacement of a replica",
    )
    WORKER_MISSING = (
        "WorkerMissing",
        "`Running=True`",
        "`ParameterServer` and `Independent`: training continues without some replicas, which start or are replaced",
    )
    RESIZED = (
        "Resized",
        "`Restarting=True`, `Running=False`",
        "the numbers of replicas changed; the gang restarts. Not counted",
    )
    SPEC_CHANGED = (
        "SpecChanged",
        "`Restarting=True`, `Running=False`",
        "the gang restarts with the newest specification (`updateStrategy: Restart`). Not counted",
    )
    RESTART_REQUESTED = (
        "RestartRequested",
        "`Restarting=True`, `Running=False`",
        "the annotation `tfdist.dev/restartedAt` requests a restart. Not counted",
    )
    LAUNCHER_KEY_DELETED = (
        "LauncherKeyDeleted",
        "`Restarting=True`, `Running=False`",
        "a pod cannot start because the Secret of the launchers was deleted: it is created again and the gang "
        "restarts. Not counted",
    )
    PROGRESS_DEADLINE_EXCEEDED = (
        "ProgressDeadlineExceeded",
        "`Stalled=True`",
        "no progress within `progressDeadlineSeconds`; the gang restarts",
    )
    LEADER_UNRESPONSIVE = (
        "LeaderUnresponsive",
        "`Stalled=True`",
        "the leader reported before and no longer answers. No action follows from this alone",
    )
    PROGRESS_RESUMED = "ProgressResumed", "`Stalled=False`", "training completes steps again, or the leader answers"
    TRAINING_SUCCEEDED = (
        "TrainingSucceeded",
        "`Running=False`",
        "training succeeded; evaluation may follow",
    )
    EVALUATE_ONLY = "EvaluateOnly", "`Running=False`", "the job has `task: Evaluate`"
    EVALUATED = "Evaluated", "`Evaluated=True`", "the final checkpoint is evaluated; the message has the metrics"
    NO_RESULT = "NoResult", "`Evaluated=True`", "the evaluator ended, or was stopped at its deadline, without a result"
    EVALUATION_DEADLINE_EXCEEDED = (
        "EvaluationDeadlineExceeded",
        "`Evaluated=False`",
        "the evaluation has not finished within `evaluation.deadlineSeconds` after training",
    )
    EVALUATION_FAILED = (
        "EvaluationFailed",
        "`Succeeded=True` or `Failed=True`",
        "training succeeded and evaluation failed; `evaluation.onFailure` decides which of the two follows",
    )
    SUSPENDING = "Suspending", "`Suspended=False`", "the pods save and end"
    SUSPENDED = (
        "Suspended",
        "`Suspended=True`, and `False` of `Running`, `PodsReady`, `Restarting`, `Stalled`",
        "the job is suspended, without pods",
    )
    QUEUED = (
        "Queued",
        "`Suspended=True`",
        "the job waits in its queue, without pods; the message is that of Kueue",
    )
    EVICTED = (
        "Evicted",
        "`Suspended=False`",
        "Kueue evicts the job, such as for one of a higher priority: the pods save and end. Not counted",
    )
    ADMITTED = "Admitted", "`Suspended=False`", "the queue has admitted the job"
    RESUMED = "Resumed", "`Suspended=False`, `Evaluated=False`", "the job is resumed; a failed evaluation begins again"
    INVALID_SPEC = "InvalidSpec", "`Invalid=True`", "the specification is invalid; the message names every field"
    INVALID_UPDATE = (
        "InvalidUpdate",
        "`Invalid=True`",
        "an update is invalid; the job continues with its last valid specification",
    )
    POD_REJECTED = (
        "PodRejected",
        "`Invalid=True`",
        "the API server rejects the pods as invalid (400 or 422). They are sent again after a change of the "
        "specification, and every ten minutes",
    )
    SPEC_VALID = "SpecValid", "`Invalid=False`", "the specification is valid again"
    ACTIVE_DEADLINE_EXCEEDED = (
        "ActiveDeadlineExceeded",
        "`Failed=True`",
        "the job was active for longer than `activeDeadlineSeconds`",
    )
    EXPORT_MISSING = (
        "ExportMissing",
        "`Failed=True`",
        "training ended with exit code 0 and has not exported a model that `training.export` requests; the message has "
        "the probable cause",
    )
    CHECKPOINT_MISSING = (
        "CheckpointMissing",
        "`Failed=True`",
        "training ended with exit code 0 and has not saved its last step, although it saves checkpoints",
    )
    TRAINED_ALONE = (
        "TrainedAlone",
        "`Degraded=True`, `Degraded=False`",
        "each worker trains a model of its own on all data, because `fit` has one that was made outside of "
        "`strategy.scope()`; False if a later attempt trains one model",
    )
    FAILURE_IGNORED = (
        "FailureIgnored",
        "`Degraded=True`",
        "the script failed, and the command that runs it ended with 0 nevertheless; the message has the error",
    )
    CHECKPOINT_UNUSED = (
        "CheckpointUnused",
        "`Degraded=True`",
        "the program of a job with `checkpoint` has reported no checkpoint: the field had no effect, unless the "
        "program saves by itself",
    )
    FAILED_AFTER_TRAINING = (
        "FailedAfterTraining",
        "`Degraded=True`",
        "the job succeeded by `successPolicy`, and another worker failed after training; the message has its error",
    )
    SUCCEEDED = "Succeeded", "`Succeeded=True`", "the job did all its work"
    JOB_FINISHED = "JobFinished", "`False` of `PodsReady`, `Restarting`, `Stalled`, `Suspended`", "the job has finished"


class EventReason(Reason):
    """Reason of an event."""

    RUNNING = "Running", "Normal", "all replicas of an attempt run"
    RESTARTING = (
        "Restarting",
        "Warning; Normal without a failure",
        "a gang, or a replica of it, restarts; the message has the cause",
    )
    STALLED = (
        "Stalled",
        "Warning",
        "no progress within `progressDeadlineSeconds`; the message names the replica that is behind, if any",
    )
    SLOW_REPLICA = (
        "SlowReplica",
        "Warning",
        "a replica takes much longer than the others for its part of a step, so that they wait for it; the message has "
        "both times. Once for each replica and attempt",
    )
    NODE_AVOIDED = (
        "NodeAvoided",
        "Warning",
        "a failure was the fault of its node, or two attempts in a row failed there; later attempts prefer other nodes",
    )
    PODS_READY_TIMEOUT = (
        "PodsReadyTimeout",
        "Normal",
        "a gang that was scheduled in part has released its nodes for other jobs; the message has the time of its next "
        "start",
    )
    SUSPENDED = "Suspended", "Normal", "the job is being suspended"
    RESUMED = "Resumed", "Normal", "the job is resumed"
    QUEUED = "Queued", "Normal", "the job waits in its queue"
    EVICTED = "Evicted", "Normal", "Kueue evicts the job, which waits in its queue again"
    ADMITTED = "Admitted", "Normal", "the queue has admitted the job"
    INVALID = "Invalid", "Warning", "the specification is invalid, or the API server rejects its pods"
    SPEC_WARNING = (
        "SpecWarning",
        "Warning",
        "the specification is valid and probably does not behave as intended; the message names every field, as "
        "`tfdist validate` does. Once for each generation",
    )
    EVALUATION_FAILED = "EvaluationFailed", "Warning", "the evaluator failed during training, which continues"
    SUCCEEDED = "Succeeded", "Normal; Warning after a failed evaluation", "the job succeeded"
    TRAINED_ALONE = (
        "TrainedAlone",
        "Warning",
        "each worker trains a model of its own, see the condition `Degraded`. Once for each attempt",
    )
    FAILURE_IGNORED = (
        "FailureIgnored",
        "Warning",
        "the command of a training that has ended hides the failure of its script, see the condition `Degraded`",
    )
    CHECKPOINT_UNUSED = (
        "CheckpointUnused",
        "Warning",
        "`checkpoint` had no effect on a training that has ended, see the condition `Degraded`",
    )
    FAILED_AFTER_TRAINING = (
        "FailedAfterTraining",
        "Warning",
        "a worker failed after the training of a job that succeeded, see the condition `Degraded`",
    )
    CHANGE_NOT_APPLIED = (
        "ChangeNotApplied",
        "Warning",
        "the specification of a finished job was changed; it does not run: delete the job and create it again",
    )
    FAILED = "Failed", "Warning", "the job failed; the message has the root cause"
    REPAIRED = "Repaired", "Normal", "an object of the job was deleted or changed, and is restored"
    MULTIPLE_CONTROLLERS = (
        "MultipleControllers",
        "Warning",
        "another controller acts on the same job; the message names its Lease",
    )
    SET_ASIDE = (
        "SetAside",
        "Warning",
        "planning the job took so long that it would delay other jobs; it is planned again at the time in the message",
    )
    STATUS_REJECTED = (
        "StatusRejected",
        "Warning",
        "the API server rejects a value of the status; the rest is stored, and the message has the remedy",
    )
    TENSORBOARD_REJECTED = (
        "TensorBoardRejected",
        "Warning",
        "the API server rejects an object of the TensorBoard; training continues, and the creation is retried",
    )


class SweepReason(Reason):
    """Reason of a condition, an event or the end of a trial of a sweep."""

    INVALID = "InvalidSpec", "`Invalid=True`, event", "the specification of the sweep is invalid"
    RUNNING = "TrialsRunning", "`Running=True`", "trials run, or wait for their turn"
    CREATE_FAILED = "CreateFailed", "`Running=True`", "the API server rejects the job of a trial; it is retried"
    SUSPENDED = "Suspended", "`Suspended=True`, `Running=False`", "`suspend` is true; the jobs are suspended"
    RESUMED = "Resumed", "`Suspended=False`", "the sweep was resumed"
    FINISHED = "Finished", "`Running=False`", "the sweep has finished"
    ALL_TRIALS_FINISHED = (
        "AllTrialsFinished",
        "`Succeeded=True`, event",
        "every trial has finished or was stopped early",
    )
    TARGET_REACHED = "TargetReached", "`Succeeded=True`, event", "a trial has reached `targetValue`"
    NO_RESULT = "NoResult", "`Failed=True`, event", "every trial has finished, and none has a value of the metric"
    TOO_MANY_FAILED_TRIALS = "TooManyFailedTrials", "`Failed=True`, event", "more than `maxFailedTrials` trials failed"
    USER_ERROR = (
        "UserError",
        "`Failed=True`, event",
        "the first trials failed by an error in the program or its configuration",
    )
    ACTIVE_DEADLINE_EXCEEDED = (
        "ActiveDeadlineExceeded",
        "`Failed=True`, event",
        "the sweep was active for longer than `activeDeadlineSeconds`",
    )
    TRIAL_FAILED = "TrialFailed", "event", "a trial failed; the message has its reason"
    STOPPED_EARLY = "StoppedEarly", "trial", "the trial was worse than others at the same training step"
    SWEEP_ENDED = "SweepEnded", "trial", "the sweep ended before the trial"
    METRIC_MISSING = "MetricMissing", "trial", "the job succeeded without a value of the metric of the sweep"
    JOB_DELETED = "JobDeleted", "trial", "the job was deleted before it finished"
    REJECTED = "Rejected", "trial", "the API server rejects the job"
    NAME_TAKEN = "NameTaken", "trial", "a job that does not belong to the sweep has the name of the trial"
