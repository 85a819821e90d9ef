"""The private hooks of Keras and TensorFlow are as the trainer relies on; an update that changes one fails here."""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
import textwrap
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.ports import free_ports

from tfdist_trainer import upstream
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.fit_switch import UNTESTED, fit_switch
from tfdist_trainer.upstream import (
    collective_connect,
    coordinator,
    eager_context,
    keras_layers,
    versions,
)
from tfdist_trainer.upstream.hook import Hook
from tfdist_trainer.upstream.initial_values import local_initial_values
from tfdist_trainer.upstream.keras_optimizers import disable_gradient_reduction, moments_of, replace_adam_update

pytestmark = pytest.mark.trainer

MODULES = [module.name for module in pkgutil.iter_modules(upstream.__path__) if module.name not in {"hook", "versions"}]
HOOKS: list[Hook] = [each for name in MODULES for each in importlib.import_module(f"{upstream.__name__}.{name}").HOOKS]


def resolved(name: str) -> Any:
    """Return the object with a hook's name; `()` after a name stands for an instance, which has the attributes."""
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part.removesuffix("()"))
        if part == "Adam()":
            found = found()
            found.build([keras.Variable(np.zeros(2, np.float32))])
        elif part == "TensorBoard()":
            found = found()
        elif part == "GeneratorDataAdapter()":
            found = found(iter([(np.zeros(1),)]))
        elif part == "Model()":
            found = found()
        elif part == "_BatchDataset()":
            found = found(tf.data.Dataset.range(2), 1, False)
        elif part == "context()":
            found = found()
    return found


@pytest.mark.parametrize("each", HOOKS, ids=lambda each: each.name)
def test_upstream_has_each_hook_with_the_parameters_that_callers_use(each: Hook) -> None:
    if "ClusterCoordinator()" in each.name or "RemoteValueImpl()" in each.name:
        # An attribute that only an instance in a cluster has: below.
        module, _, path = each.name.partition(":")
        resolved(f"{module}:{path.partition('(')[0]}")
        return
    if each.since and Version(keras.__version__) < Version(each.since):
        pytest.skip(f"{each.package} has it since {each.since}")
    found = resolved(each.name)
    if each.parameters is not None:
        assert tuple(inspect.signature(found).parameters) == each.parameters


@pytest.mark.parametrize("package", ["keras", "tensorflow"])
def test_the_installed_versions_are_those_that_were_tested(package: str) -> None:
    if fit_switch(os.environ) == UNTESTED:
        pytest.skip("versions outside of the range are tried")
    assert sys.modules[package].__version__ in SpecifierSet(versions.RANGES[package])


@pytest.fixture(scope="module")
def mirrored(two_devices: None) -> tf.distribute.Strategy:  # noqa: ARG001  must come before TensorFlow starts
    # Without collectives, whose keys would collide with those that other tests of the process have used.
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice())


def applied(mirrored: tf.distribute.Strategy, optimizer: Any, variable: Any) -> list[float]:
    """Return `variable` on each replica after each has applied a gradient of 1."""

    def replica() -> None:
        optimizer.apply([tf.constant([1.0])], [variable])

    tf.function(lambda: mirrored.run(replica))()
    return [float(value.numpy()[0]) for value in mirrored.experimental_local_results(variable.value)]


@pytest.mark.parametrize("scaled", [False, True])
def test_keras_sums_gradients_over_replicas_by_the_hook_and_not_when_it_is_disabled(
    mirrored: tf.distribute.Strategy, scaled: bool
) -> None:
    def optimizer(variable: Any) -> Any:
        made = keras.optimizers.SGD(1.0)
        made = keras.optimizers.LossScaleOptimizer(made, initial_scale=1.0) if scaled else made
        made.build([variable])
        return made

    with mirrored.scope():
        first, second = (keras.Variable(np.zeros(1, np.float32)) for _ in range(2))
        summing, plain = optimizer(first), optimizer(second)
    disable_gradient_reduction(plain)
    assert applied(mirrored, summing, first) == [-2.0, -2.0], "Keras sums gradients in another place"
    assert applied(mirrored, plain, second) == [-1.0, -1.0]


def test_an_optimizer_that_reduces_in_another_way_is_rejected_with_the_versions_that_were_tested() -> None:
    with pytest.raises(ConfigurationError, match=r"keras 3\.\d+\.\d+ has no .*_all_reduce_sum_gradients.*keras>=3"):
        disable_gradient_reduction(object())


def test_the_update_of_adam_is_replaced_after_clipping_and_before_the_iteration_counts() -> None:
    adam, variable = keras.optimizers.Adam(0.25, global_clipnorm=1.0), keras.Variable(np.zeros(2, np.float32))
    adam.build([variable])
    calls = []

    def update(by_keras: Any, gradients: Any, variables: Any, rate: Any) -> None:
        calls.append((gradients[0].numpy().tolist(), list(variables), float(rate), int(adam.iterations)))
        by_keras(gradients, variables, rate)

    assert replace_adam_update(adam, lambda by_keras: partial(update, by_keras))
    adam.apply([tf.constant([3.0, 4.0])], [variable])
    [(gradient, variables, rate, iterations)] = calls
    assert gradient == pytest.approx([0.6, 0.8])
    assert (variables, rate, iterations, int(adam.iterations)) == ([variable], 0.25, 0, 1)
    first, second = moments_of(adam, variable)
    np.testing.assert_allclose(first.numpy(), [0.06, 0.08], rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), [0.00036, 0.00064], rtol=1e-4)


def test_an_adam_without_the_hooks_keeps_its_own_update(capsys: pytest.CaptureFixture[str]) -> None:
    assert not replace_adam_update(object(), lambda by_keras: by_keras)
    assert "hook-missing" in capsys.readouterr().out


def test_the_words_of_texts_are_those_that_the_layer_looks_up() -> None:
    texts = tf.constant(["The film, the FILM", "", "good"])
    layer = keras.layers.TextVectorization(vocabulary=["good", "film", "the"])
    words = keras_layers.words(layer, texts)
    assert words.numpy().tolist() == [b"the", b"film", b"the", b"film", b"good"]
    assert layer(texts).numpy().tolist() == [[4, 3, 4, 3], [0, 0, 0, 0], [2, 0, 0, 0]]
    with pytest.raises(ConfigurationError, match="_preprocess"):
        keras_layers.words(object(), texts)


def test_the_layers_of_a_model_are_found_at_any_depth_and_compute_by_a_replaced_call() -> None:
    inner = keras.layers.Dense(1, kernel_initializer="ones")
    model = keras.Sequential([keras.layers.Input([1]), keras.Sequential([keras.Sequential([inner])])])
    assert [layer for layer in keras_layers.all_layers(model) if layer is inner] == [inner]
    seen = []

    def call(inputs: Any, **known: Any) -> Any:
        seen.append(known)
        return inputs * 5.0

    keras_layers.replace_call(inner, call)
    assert float(model(tf.ones([1, 1]), training=True)[0, 0]) == 5.0
    assert float(tf.function(model)(tf.ones([1, 1]))[0, 0]) == 5.0
    assert len(seen) == 2


def test_a_layer_of_batch_normalization_gets_its_arguments_by_name() -> None:
    layer = keras.layers.BatchNormalization()
    model = keras.Sequential([keras.layers.Input([2, 2, 1]), layer])
    seen: list[dict[str, Any]] = []
    own = layer.call

    def call(inputs: Any, **known: Any) -> Any:
        seen.append(known)
        return own(inputs, **known)

    keras_layers.replace_call(layer, call)
    model(tf.ones([1, 2, 2, 1]), training=True)
    assert [known["training"] for known in seen] == [True]


def test_variables_of_floating_point_alone_are_created_without_a_broadcast() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    extended = strategy.extended
    before = getattr(extended, "_get_variable_creator_initial_value")  # noqa: B009  the hook itself
    with strategy.scope(), local_initial_values(strategy) as created:
        floating = keras.Variable(np.full(2, 3.0, np.float32))
        counter = tf.Variable(0, dtype=tf.int64)
    assert [variable.name for variable in created] == [floating.value.name]
    assert counter.numpy() == 0
    np.testing.assert_array_equal(floating.numpy(), [3.0, 3.0])
    assert extended._get_variable_creator_initial_value == before


def run(script: str, environ: dict[str, str], seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a script that starts TensorFlow's runtime in a way that cannot be undone."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_a_strategy_that_is_created_too_late_is_an_error_that_names_the_remedy() -> None:
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    environ = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}
    script = f"""
        import tensorflow as tf
        from {eager_context.__name__} import before_start

        before_start(lambda: print("about to start", tf.constant(1).numpy()))
        tf.constant(2)
        print(tf.distribute.MirroredStrategy(["CPU:0"]).num_replicas_in_sync)
        tf.distribute.MultiWorkerMirroredStrategy()
    """
    ended = run(script, environ)
    assert ended.stdout.splitlines() == ["about to start 1", "1"]
    last = ended.stderr.splitlines()[-1]
    assert "must be configured at program startup. MultiWorkerMirroredStrategy must be created before" in last
    assert "move it to the beginning of the script" in last


def test_python_goes_on_while_tensorflow_waits_for_a_member_that_does_not_come() -> None:
    here, absent = free_ports(2)
    cluster = {"worker": [f"127.0.0.1:{here}", f"127.0.0.1:{absent}"]}
    environ = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}
    script = f"""
        import os, threading, time
        import tensorflow as tf
        from {collective_connect.__name__} import gil_free_connect

        def watch():
            started.wait()
            for _ in range(20):
                time.sleep(0.1)
            print("connecting" if not connected.is_set() else "connected", flush=True)
            os._exit(0)

        started, connected = threading.Event(), threading.Event()
        threading.Thread(target=watch, daemon=True).start()
        with gil_free_connect():
            started.set()
            tf.distribute.MultiWorkerMirroredStrategy()
        connected.set()
        time.sleep(60)
    """
    done = run(script, environ)
    assert done.stdout.split() == ["connecting"], done.stderr[-2000:]


@pytest.fixture(scope="module")
def in_a_cluster() -> Any:
    """What a process with a cluster of its own found of the eager context and of the coordinator."""
    script = f"""
        import json, sys
        from {eager_context.__name__} import runtime_is_started, server_config
        found = {{"without": runtime_is_started()}}
        import tensorflow as tf
        from tfdist_trainer.upstream.coordinator import per_worker_iterator
        found["imported"] = runtime_is_started()
        tf.config.threading.set_inter_op_parallelism_threads(7)
        found["threads"] = server_config().inter_op_parallelism_threads
        tf.constant(1)
        found["started"] = runtime_is_started()
        ports = {free_ports(3)}
        places = [f"127.0.0.1:{{port}}" for port in ports]
        spec = tf.train.ClusterSpec({{"worker": places[:2], "ps": places[2:]}})
        servers = [
            tf.distribute.Server(spec, job_name=job, task_index=task, protocol="grpc", config=server_config())
            for job, task in (("worker", 0), ("worker", 1), ("ps", 0))
        ]
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        iterator = per_worker_iterator(
            coordinator, lambda index, count: tf.data.Dataset.from_tensors(10 * count + index).repeat()
        )
        take = tf.function(lambda each: each.get_next())
        values = [coordinator.schedule(take, args=(iterator,)) for _ in range(200)]
        coordinator.join()
        found["values"] = sorted({{int(value.fetch()) for value in values}})
        print(json.dumps(found), flush=True)
        import os
        os._exit(0)
    """
    done = run(script, {"GRPC_FAIL_FAST": "use_caller"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_runtime_counts_as_started_from_its_first_operation_on(in_a_cluster: dict[str, Any]) -> None:
    assert (in_a_cluster["without"], in_a_cluster["imported"], in_a_cluster["started"]) == (False, False, True)


def test_a_server_gets_the_settings_of_threads(in_a_cluster: dict[str, Any]) -> None:
    assert in_a_cluster["threads"] == 7


def test_each_worker_reads_a_data_set_of_its_own(in_a_cluster: dict[str, Any]) -> None:
    assert in_a_cluster["values"] == [20, 21]


def test_a_coordinator_without_the_hooks_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"has no .*ClusterCoordinator"):
        coordinator.per_worker_iterator(object(), lambda _index, _count: tf.data.Dataset.range(1))
