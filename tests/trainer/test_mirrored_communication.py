"""How the replicas of a `Mirrored` job exchange gradients, by the operations in the graph of a reduction."""

from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.strategies.build import single_replica_strategy

if TYPE_CHECKING:
    from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer


def exchanges(strategy: tf.distribute.Strategy) -> list[tuple[str, str]]:
    """Return type and `communication_hint`, if it has one, of each operation that reduces over the replicas."""

    def replica() -> Any:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([2]))

    traced = tf.function(lambda: strategy.run(replica)).get_concrete_function()
    reductions = [operation for operation in traced.graph.get_operations() if "Reduce" in operation.type]
    return [(each.type, each.node_def.attr["communication_hint"].s.decode()) for each in reductions]


@pytest.mark.parametrize("collective", ["Auto", "Ring", "NCCL"])
def test_mirrored_uses_the_collectives_that_tensorflow_has_by_default(
    gang: "ReplicaGroup", monkeypatch: pytest.MonkeyPatch, collective: Any
) -> None:
    # given two devices of the CPU, which for NCCL pass as GPUs until the strategy is made
    default = exchanges(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
    if collective == "NCCL":
        monkeypatch.setattr("tensorflow.config.get_visible_devices", lambda _: ["GPU"])
    # when a job makes its strategy
    strategy = single_replica_strategy(gang.member, RuntimeSpec(collective=collective))
    # then both replicas take part in one collective, as without a setting
    assert strategy.num_replicas_in_sync == 2
    assert exchanges(strategy) == default == [("CollectiveReduceV2", "ring")] * 2


def test_mirrored_without_a_gpu_rejects_nccl(gang: "ReplicaGroup") -> None:
    with pytest.raises(ConfigurationError, match=r"runtime\.collective: NCCL exchanges between GPUs.* use Auto"):
        single_replica_strategy(gang.member, RuntimeSpec(collective="NCCL"))
