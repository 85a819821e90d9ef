"""The TFDistJob resource, `tfdist.dev/v1`: the source of the CRD, its validation and its reference page.

One served version, extended only by optional fields.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from tfdist.api.base import ApiModel
from tfdist.api.cross_field_rules import SPEC_RULES
from tfdist.api.network import NetworkPolicyIngressRule
from tfdist.api.patterns import JOB_NAME
from tfdist.api.pod_fields import PodFields
from tfdist.api.policies import ElasticSpec, FailurePolicy, OomPolicy, RunPolicy, SchedulingSpec, SuccessPolicy
from tfdist.api.resource import MAX_NAME_LENGTH
from tfdist.api.roles import ChiefSpec, EvaluatorSpec, ParameterServerSpec, WorkerSpec
from tfdist.api.training import (
    CheckpointSpec,
    EvaluationMode,
    EvaluationSpec,
    RuntimeSpec,
    TensorBoardSpec,
    TrainingSpec,
)
from tfdist.contract import Role, Task


class Strategy(StrEnum):
    """How TensorFlow distributes training; it determines cluster specification, restart domains and validation."""

    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    PARAMETER_SERVER = "ParameterServer"
    MIRRORED = "Mirrored"
    ONE_DEVICE = "OneDevice"
    INDEPENDENT = "Independent"
    CUSTOM = "Custom"


class TFDistJobSpec(PodFields):
    """Specification of a job: what to run, on how many replicas, and how to handle failures."""

    cross_field_rules = SPEC_RULES

    task: Task = Task.TRAIN
    """Task of the job. `Train`: train a model; `Evaluate`: the workers evaluate `checkpoint.restore` once, without
    training."""
    strategy: Strategy = Strategy.MULTI_WORKER_MIRRORED
    """Distribution strategy of TensorFlow. `MultiWorkerMirrored`: synchronous training on all workers; `Mirrored`: one
    worker with several GPUs; `OneDevice`: one worker with one device; `ParameterServer`: asynchronous training, with
    the variables on `ps`; `Independent`: chief and workers without a cluster, each restarted alone, for scripts that
    find each other by `TFDIST_JOB`; `Custom`: any roles, restarted together. Immutable once the job has started."""
    chief: ChiefSpec | None = None
    """The chief, which leads the gang and writes checkpoints. Required for strategy `ParameterServer`. If not set,
    worker 0 leads."""
    worker: WorkerSpec | None = None
    """The workers, which train. If neither `worker` nor `chief` is set, the job has one worker."""
    ps: ParameterServerSpec | None = None
    """The parameter servers. Required for strategy `ParameterServer`; allowed for `ParameterServer` and `Custom`
    only."""
    evaluator: EvaluatorSpec | None = None
    """The evaluator, which scores checkpoints during training. It exists with `evaluation.mode` `Continuous` or `Both`
    without being set; set it to configure its pod."""
    training: TrainingSpec | None = None
    """A program of the bundled trainer with its configuration, or a script of your own. Not needed with a program of
    your own in `image` or `command`."""
    checkpoint: CheckpointSpec | None = None
    """Location, interval and restoring of checkpoints. If not set, a restart begins at step 0."""
    evaluation: EvaluationSpec | None = None
    """Evaluation of checkpoints during or after training. Defaults to no evaluation."""
    tensor_board: TensorBoardSpec | None = None
    """TensorBoard for the logs of the job. Defaults to none."""
    run_policy: RunPolicy = RunPolicy()
    """Deadlines, restart limit, suspension and clean-up."""
    success_policy: SuccessPolicy = SuccessPolicy.CHIEF
    """Replicas whose success completes the job. `Chief`: the chief, or worker 0 of a job without a chief; `AllWorkers`:
    all workers and the chief. Parameter servers and the evaluator are not considered."""
    failure_policy: FailurePolicy | None = None
    """Rules for failures, evaluated before the default classification: crashes restart and count against
    `runPolicy.backoffLimit`, evictions restart without counting, and the exit codes 64, 65, 66 and 78 (user errors)
    fail the job."""
    oom_policy: OomPolicy | None = None
    """Planned: increase the memory of a replica that was killed because it ran out of memory."""
    elastic: ElasticSpec | None = None
    """Planned: run with a variable number of workers."""
    scheduling: SchedulingSpec = SchedulingSpec()
    """Scheduling of the gang."""
    runtime: RuntimeSpec = RuntimeSpec()
    """Runtime settings of TensorFlow. The bundled trainer applies them; other programs read them from `TFDIST_JOB`."""
    network_policy: Literal["Enabled", "Disabled"] = "Enabled"
    """Whether the controller creates a NetworkPolicy for the job. `Enabled`: the job's pods accept connections from
    each other, from the controller on the report port, and as allowed by `networkPolicyIngress`; `Disabled`: only the
    policies of the namespace apply."""
    network_policy_ingress: Annotated[list[NetworkPolicyIngressRule] | None, Field(max_length=16)] = None
    """Additional ingress rules of the job's NetworkPolicy, as in `NetworkPolicy.spec.ingress`, for example for
    Prometheus. Requires `networkPolicy: Enabled`. Defaults to none."""

    @property
    def runs_program(self) -> bool:
        """Whether `training` names a program; a script is as free as a `command`, and reports only what it wants."""
        return self.training is not None and self.training.program is not None

    def fields_of(self, role: Role) -> PodFields | None:
        """Return the role's own pod fields; a member of an evaluation gang has the workers' fields."""
        return {
            Role.CHIEF: self.chief,
            Role.WORKER: self.worker,
            Role.PS: self.ps,
            Role.EVALUATOR: self.evaluator,
            Role.EVALUATION: self.worker,
        }[role]

    def replicas(self, role: Role) -> int:
        """Return the number of replicas of a role, with defaults applied."""
        mode = self.evaluation.mode if self.evaluation else EvaluationMode.NONE
        match role:
            case Role.CHIEF:
                return self.chief.replicas if self.chief else 0
            case Role.WORKER:
                return self.worker.replicas if self.worker else int(self.replicas(Role.CHIEF) == 0)
            case Role.PS:
                return self.ps.replicas if self.ps else 0
            case Role.EVALUATOR:
                return self.evaluator.replicas if self.evaluator else int(mode.during_training)
            case Role.EVALUATION:
                if not mode.after_training:
                    return 0
                own = self.evaluation.replicas if self.evaluation else None
                return own or self.replicas(Role.CHIEF) + self.replicas(Role.WORKER)


def label_strings(values: Any) -> Any:
    """Return the entries of labels that are strings; `validation.metadata` reports the others."""
    entries = values.items() if isinstance(values, Mapping) else ()
    return {k: v for k, v in entries if isinstance(k, str) and isinstance(v, str)}


class ObjectMeta(ApiModel):
    """The fields of the metadata that validation and rendering read."""

    model_config = {"extra": "ignore"}

    name: Annotated[str, StringConstraints(max_length=MAX_NAME_LENGTH, pattern=JOB_NAME)]
    namespace: Annotated[str, StringConstraints(min_length=1, max_length=63)] = "default"
    uid: str = ""
    labels: Annotated[Mapping[str, str], BeforeValidator(label_strings)] = Field(default_factory=dict)


class TFDistJob(ApiModel):
    """A distributed TensorFlow job: chief, workers, parameter servers and evaluator with a generated TF_CONFIG."""

    api_version: Literal["tfdist.dev/v1"]
    kind: Literal["TFDistJob"]
    metadata: ObjectMeta
    spec: TFDistJobSpec
