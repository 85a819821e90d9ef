"""Traces the training step of a program, and prints what of its graph decides about its speed on GPUs, as JSON.

Argument: the path of the file to write, for one replica, for two, and for two whose gradients are several packs. They
are devices 1 and 2 of the CPU, so that what the graph asks of `CPU:0` is meant for the host, whatever a replica
computes with. The step is that of GPUs, but for its devices. Nothing is computed.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

DEVICE_SOURCES = ("IteratorGetNext", "MultiDeviceIteratorGetNextFromShard", "ReadVariableOp", "CollectiveReduceV2")
"""Operations whose results are in the memory of a replica's device: the batch, the weights, and what is reduced."""
VARIABLES = 40
SMALL_PACK_BYTES = 400
"""Of packs that each have the gradients of some layers of 80 bytes."""


def main(output: Path) -> None:
    os.environ["TFDIST_LOGICAL_CPUS"] = "3"
    from tfdist.contract import Role  # noqa: PLC0415
    from tfdist_trainer import runtime, step_clock  # noqa: PLC0415
    from tfdist_trainer.strategies import devices, reduction  # noqa: PLC0415

    devices.configure(runtime.read({}), Role.WORKER)
    step_clock.only_last_steps = lambda: True
    graphs = {str(replicas): described(replicas) for replicas in (1, 2)}
    reduction.PACK_BYTES = SMALL_PACK_BYTES
    output.write_text(json.dumps(graphs | {"packs": described(2)}))


def described(replicas: int) -> dict[str, Any]:
    """Return what the graph of the step on so many replicas has."""
    graph = traced(replicas).graph.as_graph_def()
    functions = {function.signature.name: function for function in graph.library.function}
    loop = next(node for node in nodes(graph.node, functions) if node.op in {"While", "StatelessWhile"})
    body, condition = (functions[loop.attr[name].func.name] for name in ("body", "cond"))
    nodes_of_body = {node.name: node for node in body.node_def}
    return {
        "exchanges": [node.op for node in nodes(body.node_def, functions) if exchanges(node)],
        "awaitedGradients": [
            awaited_gradients(node, nodes_of_body, functions) for node in body.node_def if exchanges(node)
        ],
        "python": sorted({node.op for node in nodes(graph.node, functions) if "PyFunc" in node.op}),
        "loopReads": sorted(set(loop_reads(body, condition, nodes_of_body))),
        "hostReads": sorted(host_reads(nodes_of_body)),
    }


def traced(replicas: int) -> Any:
    """Return the concrete function of some steps of a network of several layers."""
    import keras  # noqa: PLC0415
    import tensorflow as tf  # noqa: PLC0415

    from tfdist.contract import ReplicaJob  # noqa: PLC0415
    from tfdist_trainer.environment import GangMember  # noqa: PLC0415
    from tfdist_trainer.step import StepOptions, TrainStep  # noqa: PLC0415
    from tfdist_trainer.strategies.replica_group import ReplicaGroup  # noqa: PLC0415

    names = [f"CPU:{1 + number}" for number in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(names) if replicas > 1 else tf.distribute.OneDeviceStrategy(names[0])
    place: dict[str, Any] = {"strategy": "Mirrored", "role": "worker", "index": 0, "replicas": {"worker": 1}}
    member = GangMember(job=ReplicaJob(name="t", namespace="d", uid="u", **place), rank=0, size=1, addresses=())
    program: Any = Network()
    with strategy.scope():
        model = program.model()
        optimizer = keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    step: Any = TrainStep(ReplicaGroup(member, strategy), program, model, optimizer, StepOptions())

    def batches(_context: Any) -> Any:
        parts = tf.zeros([8, 4]), tf.zeros([8], tf.int64), tf.ones([8]), tf.ones([8], tf.bool)
        return tf.data.Dataset.from_tensors(parts).repeat()

    iterator = iter(strategy.distribute_datasets_from_function(batches))
    return step.graph.get_concrete_function(iterator, tf.TensorSpec([], tf.int32))


class Network:
    """A program of a network with `VARIABLES` variables."""

    def model(self) -> Any:
        import keras  # noqa: PLC0415

        return keras.Sequential([keras.Input([4]), *(keras.layers.Dense(4) for _ in range(VARIABLES // 2))])

    def loss(self, labels: Any, predictions: Any) -> Any:
        import tensorflow as tf  # noqa: PLC0415

        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, predictions)

    def metrics(self) -> tuple[()]:
        return ()


def nodes(operations: Iterable[Any], functions: dict[str, Any]) -> Iterator[Any]:
    """Return `given` and the nodes of all functions that they call."""
    for node in operations:
        yield node
        for value in node.attr.values():
            called = [value.func, *value.list.func]
            for name in (each.name for each in called if each.name in functions):
                yield from nodes(functions[name].node_def, functions)


def exchanges(node: Any) -> bool:
    """Return whether a node exchanges between replicas."""
    return "Collective" in node.op or "Nccl" in node.op


def data_inputs(node: Any) -> list[str]:
    """Return the nodes and arguments whose tensors a node reads.

    Of a branch on the host that is what chooses it: its arguments stay where they are until it is taken.
    """
    read = [name.partition(":")[0] for name in node.input if not name.startswith("^")]
    return read[:1] if node.op in {"If", "StatelessIf"} and on_host(node) else read


def on_host(node: Any) -> bool:
    """Return whether a node is placed on the host."""
    return bool(node.device.endswith("CPU:0"))


def awaited_gradients(node: Any, nodes_of_body: dict[str, Any], functions: dict[str, Any]) -> int:
    """Return how many gradients of biases are computed before a node runs."""
    visited, left = set(), list(node.input)
    while left:
        tensor = left.pop()
        node_def = nodes_of_body.get(tensor.lstrip("^").partition(":")[0])
        if node_def is not None and tensor not in visited:
            visited.add(tensor)
            left += inputs_of(tensor, node_def, functions)
    return len(
        {tensor for tensor in visited if nodes_of_body[tensor.lstrip("^").partition(":")[0]].op == "BiasAddGrad"}
    )


def inputs_of(tensor: str, node: Any, functions: dict[str, Any]) -> list[str]:
    """Return the tensors that the `tensor`, an output of `node`, depends on.

    Each output of a branch depends on what chooses it and on the arguments of that output: TensorFlow turns a branch
    into one choice for each.
    """
    if node.op != "StatelessIf" or tensor.startswith("^"):
        return list(node.input)
    needed = [node.input[0], *(name for name in node.input if name.startswith("^"))]
    for branch in ("then_branch", "else_branch"):
        function = functions[node.attr[branch].func.name]
        arguments = [each.name for each in function.signature.input_arg]
        inside = {each.name: each for each in function.node_def}
        left = [function.ret[function.signature.output_arg[int(tensor.rpartition(":")[2])].name]]
        while left:
            name = left.pop().partition(":")[0]
            needed += [node.input[1 + arguments.index(name)]] if name in arguments else []
            left += inside[name].input if name in inside else []
    return needed


def sources(name: str, nodes_of_body: dict[str, Any]) -> set[str]:
    """Return those of `DEVICE_SOURCES` that a node of a function depends on, by its data."""
    operations, visited, left = set(), set(), [name]
    while left:
        node = nodes_of_body.get(left.pop())
        if node is None or node.name in visited:
            continue
        visited.add(node.name)
        operations |= {node.op} & set(DEVICE_SOURCES)
        left += data_inputs(node)
    return operations


def loop_reads(body: Any, condition: Any, nodes_of_body: dict[str, Any]) -> Iterator[str]:
    """Return what of the device's memory decides whether there is another step: the host waits for it."""
    arguments = [each.name for each in condition.signature.input_arg]
    of_condition = {node.name: node for node in condition.node_def}
    left = [condition.ret[condition.signature.output_arg[0].name].partition(":")[0]]
    while left:
        name = left.pop()
        if name in of_condition:
            left += data_inputs(of_condition[name])
        elif name in arguments:
            result = body.signature.output_arg[arguments.index(name)].name
            yield from sources(body.ret[result].partition(":")[0], nodes_of_body)


def host_reads(nodes_of_body: dict[str, Any]) -> Iterator[str]:
    """Return the nodes that copy in each step what a replica has computed to the host."""
    for node in nodes_of_body.values():
        is_here = on_host(node) and node.op not in DEVICE_SOURCES
        if is_here and any(sources(name, nodes_of_body) for name in data_inputs(node)):
            yield node.name


if __name__ == "__main__":
    main(Path(sys.argv[1]))
