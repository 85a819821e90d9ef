"""Reasons of conditions and events that the controller writes, each with its row in `docs/reasons.md`.

A condition or event about a failed replica carries the reason of the failure instead, from
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
        "a pod cannot be created because of a quota, a policy, a missing permission of the controller, another pod "
        "with its name, or an invalid specification. `Failed` after `startDeadlineSeconds`",
    )
    CHECKPOINT_DIRECTORY_IN_USE = (
        "CheckpointDirectoryInUse",
        "`PodsReady=False`, `Failed=True`",
        "another job writes to `checkpoint.directory`; the message names it. This job starts when the other one has "
        "ended. `Failed` after `startDeadlineSeconds`",
    )
    EXPORT_DIRECTORY_IN_USE = (
        "ExportDirectoryInUse",
        "`PodsReady=False`, `Failed=True`",
        "another job writes to `training.export.directory` or its default; the message names it. This job starts "
        "when the other one has ended. `Failed` after `startDeadlineSeconds`",
    )
    IMAGE_ERROR = (
        "ImageError",
        "`PodsReady=False`, `Failed=True`",
        "an image cannot be pulled; the message names the field. `Failed` after the start deadline",
    )
    CONFIG_ERROR = (
        "ConfigError",
        "`PodsReady=False`, `Failed=True`",
        "a container cannot be created, for example because a ConfigMap or Secret that it or its volumes use does "
        "not exist. `Failed` after the start deadline",
    )
    UNSCHEDULABLE = (
        "Unschedulable",
        "`PodsReady=False`, `Failed=True`",
        "the scheduler finds no node for a pod. `Failed` after `startDeadlineSeconds`",
    )
    GANG_SCHEDULER_MISSING = (
        "GangSchedulerMissing",
        "`PodsReady=False`, `Failed=True`",
        "the cluster lacks the gang scheduler that `scheduling.gang` or `scheduling.queue` requires; the job starts "
        "once it is installed. `Failed` after `startDeadlineSeconds`",
    )
    GANG_SCHEDULER_UNKNOWN = (
        "GangSchedulerUnknown",
        "`PodsReady=False`",
        "the API of the gang scheduler cannot be read, so the controller does not know whether it is installed; "
        "until then no pod is created and `startDeadlineSeconds` does not run",
    )
    PODS_READY_TIMEOUT = (
        "PodsReadyTimeout",
        "`PodsReady=False`",
        "without a gang scheduler, only some replicas had nodes for `scheduling.timeoutSeconds` while other jobs "
        "waited for nodes: the gang released its nodes and starts again after a delay. Not counted",
    )
    START_DEADLINE_EXCEEDED = (
        "StartDeadlineExceeded",
        "`Failed=True`, `Evaluated=False`",
        "a replica did not start within `startDeadlineSeconds`, and the reason is unknown",
    )
    RESTARTING = "Restarting", "`PodsReady=False`", "the next attempt is starting; the message gives its time and cause"
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
        "the number of replicas changed; the gang restarts. Not counted",
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
        "the leader reported before and no longer answers. Nothing is restarted for this alone",
    )
    PROGRESS_RESUMED = "ProgressResumed", "`Stalled=False`", "training completes steps again, or the leader answers"
    TRAINING_SUCCEEDED = (
        "TrainingSucceeded",
        "`Running=False`",
        "training succeeded; evaluation may follow",
    )
    EVALUATE_ONLY = "EvaluateOnly", "`Running=False`", "the job has `task: Evaluate`"
    EVALUATED = "Evaluated", "`Evaluated=True`", "the final checkpoint was evaluated; the message gives the metrics"
    NO_RESULT = "NoResult", "`Evaluated=True`", "the evaluator ended, or was stopped at its deadline, without a result"
    EVALUATION_DEADLINE_EXCEEDED = (
        "EvaluationDeadlineExceeded",
        "`Evaluated=False`",
        "the evaluation did not finish within `evaluation.deadlineSeconds` after training",
    )
    EVALUATION_FAILED = (
        "EvaluationFailed",
        "`Succeeded=True` or `Failed=True`",
        "training succeeded and evaluation failed; `evaluation.onFailure` decides which of the two follows",
    )
    SUSPENDING = "Suspending", "`Suspended=False`", "the pods save a checkpoint, if they can, and end"
    SUSPENDED = (
        "Suspended",
        "`Suspended=True`, and `False` of `Running`, `PodsReady`, `Restarting`, `Stalled`",
        "the job is suspended and has no pods",
    )
    QUEUED = (
        "Queued",
        "`Suspended=True`",
        "the job waits in its queue and has no pods; the message comes from Kueue",
    )
    EVICTED = (
        "Evicted",
        "`Suspended=False`",
        "Kueue evicts the job, for example for one with a higher priority: the pods save a checkpoint, if they can, "
        "and end. Not counted",
    )
    ADMITTED = "Admitted", "`Suspended=False`", "the queue has admitted the job"
    RESUMED = "Resumed", "`Suspended=False`, `Evaluated=False`", "the job is resumed; a failed evaluation starts again"
    INVALID_SPEC = "InvalidSpec", "`Invalid=True`", "the specification is invalid; the message names every field"
    INVALID_UPDATE = (
        "InvalidUpdate",
        "`Invalid=True`",
        "an update is invalid; the job continues with its last valid specification",
    )
    POD_REJECTED = (
        "PodRejected",
        "`Invalid=True`",
        "the API server rejects the pods as invalid (400 or 422). They are sent again when the specification "
        "changes, and every ten minutes",
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
        "training ended with exit code 0 but did not export a model that `training.export` requests; the message "
        "gives the probable cause",
    )
    CHECKPOINT_MISSING = (
        "CheckpointMissing",
        "`Failed=True`",
        "training ended with exit code 0 but did not save its last step, although it saves checkpoints",
    )
    TRAINED_ALONE = (
        "TrainedAlone",
        "`Degraded=True`, `Degraded=False`",
        "each worker trains its own model on all the data, because the model of `fit` was created outside "
        "`strategy.scope()`; False if a later attempt trains one model",
    )
    FAILURE_IGNORED = (
        "FailureIgnored",
        "`Degraded=True`",
        "the script failed, but the command that runs it ended with exit code 0; the message gives the error",
    )
    CHECKPOINT_UNUSED = (
        "CheckpointUnused",
        "`Degraded=True`",
        "the program of a job with `checkpoint` reported no checkpoint: the field had no effect, unless the program "
        "saves its own checkpoints",
    )
    UNTESTED_VERSIONS = (
        "UntestedVersions",
        "`Degraded=True`",
        "`fit` of a finished training was left to Keras, because the trainer was not tested with the versions in the "
        "image: nothing reported its progress",
    )
    FAILED_AFTER_TRAINING = (
        "FailedAfterTraining",
        "`Degraded=True`",
        "the job succeeded according to `successPolicy`, but another worker failed after training; the message gives "
        "its error",
    )
    SUCCEEDED = "Succeeded", "`Succeeded=True`", "the job completed its work"
    JOB_FINISHED = "JobFinished", "`False` of `PodsReady`, `Restarting`, `Stalled`, `Suspended`", "the job has finished"


class EventReason(Reason):
    """Reason of an event."""

    RUNNING = "Running", "Normal", "all replicas of an attempt run"
    RESTARTING = (
        "Restarting",
        "Warning; Normal without a failure",
        "a gang, or one of its replicas, restarts; the message gives the cause",
    )
    STALLED = (
        "Stalled",
        "Warning",
        "no progress within `progressDeadlineSeconds`; the message names the replica that is behind, if any",
    )
    SLOW_REPLICA = (
        "SlowReplica",
        "Warning",
        "a replica takes much longer than the others for its part of a step, so they wait for it; the message gives "
        "both times. Once per replica and attempt",
    )
    NODE_AVOIDED = (
        "NodeAvoided",
        "Warning",
        "a node caused a failure, or two attempts in a row failed on it; later attempts prefer other nodes",
    )
    PODS_READY_TIMEOUT = (
        "PodsReadyTimeout",
        "Normal",
        "a gang that was only partly scheduled released its nodes for other jobs; the message says when it starts "
        "again",
    )
    SUSPENDED = "Suspended", "Normal", "the job is being suspended"
    RESUMED = "Resumed", "Normal", "the job is resumed"
    QUEUED = "Queued", "Normal", "the job waits in its queue"
    EVICTED = "Evicted", "Normal", "Kueue evicted the job, which waits in its queue again"
    ADMITTED = "Admitted", "Normal", "the queue has admitted the job"
    INVALID = "Invalid", "Warning", "the specification is invalid, or the API server rejects its pods"
    SPEC_WARNING = (
        "SpecWarning",
        "Warning",
        "the specification is valid but probably does not do what was intended; the message names every field, as "
        "`tfdist validate` does. Once per generation",
    )
    EVALUATION_FAILED = "EvaluationFailed", "Warning", "the evaluator failed during training, which continues"
    SUCCEEDED = "Succeeded", "Normal; Warning after a failed evaluation", "the job succeeded"
    TRAINED_ALONE = (
        "TrainedAlone",
        "Warning",
        "each worker trains its own model; see the condition `Degraded`. Once per attempt",
    )
    FAILURE_IGNORED = (
        "FailureIgnored",
        "Warning",
        "the command of a finished training hid the failure of its script; see the condition `Degraded`",
    )
    CHECKPOINT_UNUSED = (
        "CheckpointUnused",
        "Warning",
        "`checkpoint` had no effect on a finished training; see the condition `Degraded`",
    )
    UNTESTED_VERSIONS = (
        "UntestedVersions",
        "Warning",
        "`fit` of a finished training was left to Keras; see the condition `Degraded`",
    )
    FAILED_AFTER_TRAINING = (
        "FailedAfterTraining",
        "Warning",
        "a worker failed after the training of a job that succeeded; see the condition `Degraded`",
    )
    CHANGE_NOT_APPLIED = (
        "ChangeNotApplied",
        "Warning",
        "the specification of a finished job was changed, which has no effect: delete the job and create it again",
    )
    FAILED = "Failed", "Warning", "the job failed; the message gives the root cause"
    REPAIRED = "Repaired", "Normal", "an object of the job was deleted or changed, and has been restored"
    MULTIPLE_CONTROLLERS = (
        "MultipleControllers",
        "Warning",
        "another controller acts on the same job; the message names its Lease",
    )
    SET_ASIDE = (
        "SetAside",
        "Warning",
        "planning the job took so long that it would delay other jobs; the message says when it is planned again",
    )
    STATUS_REJECTED = (
        "StatusRejected",
        "Warning",
        "the API server rejects a value of the status; the rest is stored, and the message says what to do",
    )
    TENSORBOARD_REJECTED = (
        "TensorBoardRejected",
        "Warning",
        "the API server rejects an object of TensorBoard; training continues, and the creation is retried",
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
    NO_RESULT = (
        "NoResult",
        "`Failed=True`, event",
        "every trial has finished, and none reported a value of the metric or, without a metric, none succeeded",
    )
    TOO_MANY_FAILED_TRIALS = "TooManyFailedTrials", "`Failed=True`, event", "more than `maxFailedTrials` trials failed"
    USER_ERROR = (
        "UserError",
        "`Failed=True`, event",
        "the first trials failed because of an error in the program or its configuration",
    )
    ACTIVE_DEADLINE_EXCEEDED = (
        "ActiveDeadlineExceeded",
        "`Failed=True`, event",
        "the sweep was active for longer than `activeDeadlineSeconds`",
    )
    TRIAL_FAILED = "TrialFailed", "event", "a trial failed; the message gives the reason"
    STOPPED_EARLY = "StoppedEarly", "trial", "the trial was worse than others at the same training step"
    SWEEP_ENDED = "SweepEnded", "trial", "the sweep ended before the trial"
    METRIC_MISSING = "MetricMissing", "trial", "the job succeeded without a value of the metric of the sweep"
    JOB_DELETED = "JobDeleted", "trial", "the job was deleted before it finished"
    REJECTED = "Rejected", "trial", "the API server rejects the job"
    NAME_TAKEN = "NameTaken", "trial", "a job that does not belong to the sweep already has the name of the trial"
