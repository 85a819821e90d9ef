"""Creates the replica group of a member: the strategy that its job names, on the devices that it may use."""

import os
from typing import Final

import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist_trainer import log
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.strategies import devices
from tfdist_trainer.strategies.peers import wait_until_listening
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream.collective_connect import gil_free_connect

CONNECT_SECONDS: Final = 120.0
"""How long `join` may take. After the rendezvous, members only initialize their devices before they connect; the
timeout of TensorFlow, if a member is killed in between, is an hour."""


def join(member: GangMember, settings: RuntimeSpec, min_shard_bytes: int | None = None) -> ReplicaGroup:
    """Return the gang after all members have connected. Must come before any other TensorFlow operation.

    An evaluation gang of a `ParameterServer` job is synchronous: it only reads a checkpoint.

    Raises:
        ConfigurationError: this replica does not support the settings or the strategy.
        PeerLostError: a server of an asynchronous gang does not listen in time.
    """
    # Before the strategy, which starts the runtime: devices and threads are fixed then.
    devices.configure(settings, member.job.role, member.job.gpus)
    if member.cluster:
        return ReplicaGroup(member, _parameter_server_strategy(member, min_shard_bytes))
    if member.size > 1:
        return ReplicaGroup(member, _multi_worker_strategy(settings))
    # It may be set for a single replica too, and would make TensorFlow start a server.
    os.environ.pop("TF_CONFIG", None)
    return ReplicaGroup(member, single_replica_strategy(member, settings))


def _parameter_server_strategy(member: GangMember, min_shard_bytes: int | None) -> tf.distribute.Strategy:
    """Return the strategy of the chief of an asynchronous gang, after every server has begun to listen.

    With `min_shard_bytes` variables are divided over the ps, into shards of at least that size in bytes.
    """
    addresses = [address for role in ("worker", "ps") for address in member.cluster[role]]
    # TensorFlow would fail without naming the server that is missing.
    wait_until_listening(addresses, lambda text: log.event("waiting", message=text))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    partitioner = None
    if min_shard_bytes is not None:
        max_shards = len(member.cluster["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes, max_shards=max_shards)
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


def _multi_worker_strategy(settings: RuntimeSpec) -> tf.distribute.Strategy:
    options = devices.communication(settings)
    try:
        with gil_free_connect():
            return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except RuntimeError as error:
        raise ConfigurationError(
            "training.program: its module runs TensorFlow operations while it is imported, before the gang has "
            f"met; move them into the program's methods ({error})"
        ) from None


def single_replica_strategy(member: GangMember, settings: RuntimeSpec) -> tf.distribute.Strategy:
    """Return the strategy of a single replica: for `Mirrored` over all its GPUs, or logical devices without any.

    Raises:
        ConfigurationError: `runtime.collective: NCCL` without a GPU.
    """
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    if member.job.strategy != "Mirrored" or len(names) == 1:
        _log_unused_collective(settings, "one device computes")
        # Not OneDeviceStrategy: it moves every variable to its device, also those that a program puts elsewhere.
        return tf.distribute.get_strategy()
    _log_unused_collective(settings, "one machine has no network between its devices", but="NCCL")
    devices.communication(settings)
    # TensorFlow's default is collectives: by NCCL if every device is a physical GPU, else by a ring. NcclAllReduce is
    # its former implementation, which it ignores under XLA with a warning.
    return tf.distribute.MirroredStrategy(names)


def _log_unused_collective(settings: RuntimeSpec, reason: str, but: str = "") -> None:
    """Log that `runtime.collective` changes nothing here, unless it is left to TensorFlow or is `but`."""
    if settings.collective not in {"Auto", but}:
        log.event("no-effect", field="runtime.collective", reason=reason)
