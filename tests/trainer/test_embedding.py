# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""Workers exchange the rows of an embedding that a step uses with the parameter servers, and train as with all rows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support import embedding_program
from support.polling import wait_for
from support.proxy import proxy

from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.strategies.peers import is_listening

if TYPE_CHECKING:
    from trainer.replicas import Launch

    from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

BATCH = 20
STEPS = embedding_program.EXAMPLES // BATCH
CHIEF, WORKER, SERVER = range(3)


def weights_after_training(gang: "ReplicaGroup", optimizer: str) -> list[Any]:
    """Return the weights after ten steps, whose batches repeat rows."""
    import tensorflow as tf

    from tfdist_trainer.data.pipeline import EpochRange, stream
    from tfdist_trainer.step import StepOptions, TrainStep

    program = embedding_program.Table(embedding_program.Config(optimizer=optimizer))
    model, made = program.model(), program.optimizer(1.0)
    made.build(model.trainable_variables)
    examples = program.examples(Split.TRAIN, Shard(0, 1))
    batches = stream(examples, EpochRange(batches=STEPS, epochs=range(1)), batch_size=BATCH, seed=3)
    TrainStep(gang, program, model, made, StepOptions()).run(iter(batches), 10)
    return [tf.convert_to_tensor(variable).numpy() for variable in model.trainable_variables]


@pytest.mark.parametrize(
    "optimizer", ["Adam", "SGD", *(pytest.param(name, marks=pytest.mark.long) for name in ("AdamW", "Adagrad", "Ftrl"))]
)
def test_training_by_rows_is_that_by_whole_tables(one: "ReplicaGroup", optimizer: str) -> None:
    # given: a gang with parameter servers, as far as the step sees it
    from tfdist_trainer.strategies.replica_group import ReplicaGroup

    asynchronous = ReplicaGroup(replace(one.member, cluster={"ps": ("host:1",)}), one.strategy)
    # when
    by_rows, by_tables = (weights_after_training(gang, optimizer) for gang in (asynchronous, one))
    # then
    for mine, expected in zip(by_rows, by_tables, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.long
def test_a_step_exchanges_rows_with_the_parameter_server_and_not_the_table(
    launch_roles: "Launch", tmp_path: Path
) -> None:
    # given: proxies before worker and parameter server, as each of them fetches what the other has
    config = {"batchSizePerReplica": BATCH, "epochs": 1}
    job = {
        "strategy": "ParameterServer",
        "checkpoint": {"directory": str(tmp_path / "ckpt"), "everySteps": 10_000},
        "training": {"program": "support.embedding_program:Table", "config": config},
    }
    gang = launch_roles({"chief": 1, "worker": 1, "ps": 1}, config={}, job=job, absent=range(3))
    for index in (WORKER, SERVER):
        gang.start(index)
    servers = [gang.addresses[index] for index in (WORKER, SERVER)]
    wait_for("both servers", lambda: all(map(is_listening, servers)), context=lambda: gang.outputs)
    with proxy(f"tcp://{servers[0]}") as worker, proxy(f"tcp://{servers[1]}") as server:
        tf_config = json.loads(gang.environs[CHIEF]["TF_CONFIG"])
        tf_config["cluster"]["worker"] = [worker.address.removeprefix("https://")]
        tf_config["cluster"]["ps"] = [server.address.removeprefix("https://")]
        gang.environs[CHIEF]["TF_CONFIG"] = json.dumps(tf_config)  # the others learn the addresses from the chief
        # when
        gang.start(CHIEF)
        assert gang.processes[CHIEF].wait(300) == 0, gang.outputs
        exchanged = worker.forwarded_bytes + server.forwarded_bytes
    # then: the initial values, and what the checkpoint has
    assert gang.termination().step == STEPS
    assert exchanged < 0.1 * 2 * STEPS * embedding_program.TABLE_BYTES
    print(f"{exchanged:,} bytes in {STEPS} steps, of a table of {embedding_program.TABLE_BYTES:,}")
