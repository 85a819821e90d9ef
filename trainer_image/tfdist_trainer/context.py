"""The context of a task: the member, its gang, its program, and the reporter."""

from dataclasses import dataclass

from tfdist.api.training import RuntimeSpec
from tfdist.contract import CheckpointSettings
from tfdist.programs.config import ProgramConfig
from tfdist_trainer.data.files import Shard
from tfdist_trainer.environment import GangMember
from tfdist_trainer.fence import Writer, writer_of
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.config import batch_size, rate_scale
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.standby import StartBarrier
from tfdist_trainer.strategies.replica_group import ReplicaGroup


@dataclass(frozen=True, slots=True)
class Context:
    """The objects and settings that a task runs with."""

    gang: ReplicaGroup
    program: Program
    config: ProgramConfig
    checkpoint: CheckpointSettings | None
    reporter: Reporter
    preemption: PreemptionHandler
    settings: RuntimeSpec
    start_barrier: StartBarrier | None = None
    """Of a standby process: where it waits before it restores a checkpoint."""

    @property
    def seed(self) -> int:
        """Seed of all random numbers: `runtime.seed`, or the program's own."""
        return self.config.seed if self.settings.seed is None else self.settings.seed

    @property
    def member(self) -> GangMember:
        """This replica."""
        return self.gang.member

    @property
    def shard(self) -> Shard:
        """The shard that this member's input pipeline reads."""
        workers = len(self.member.cluster["worker"]) if self.member.cluster else None
        return Shard(index=self.member.rank, count=self.member.size, workers=workers)

    @property
    def scale(self) -> float:
        """Factor of the learning rate for the global batch size; see `Program.optimizer`."""
        replicas = self.gang.replicas
        return rate_scale(self.config, batch_size(self.config, replicas) * replicas)

    @property
    def writer(self) -> Writer:
        """This replica as the writer of a checkpoint."""
        return writer_of(self.member.job, self.member.round)
