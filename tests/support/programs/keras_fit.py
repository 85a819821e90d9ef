"""A script that trains in each way of `CASES`, and writes the results of all as JSON into the file of its argument.

It has no line about TFDist: the interpreter is started as in a replica of a job, by `keras_import`.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

STRATEGY: Final = (
    tf.distribute.MultiWorkerMirroredStrategy() if "--alone" not in sys.argv else tf.distribute.get_strategy()
)
INDEX: Final = STRATEGY.cluster_resolver.task_id if STRATEGY.cluster_resolver else 0
FOLDER: Final = Path(sys.argv[1]).parent
RANDOM: Final = np.random.RandomState(0)
X: Final = RANDOM.randn(193, 8).astype("float32")
"""By batches of 64 the last one has a single example: one of two workers has none."""
Y: Final = (X.sum(1) > 0.3).astype("float32")[:, None]
layers, Adam = keras.layers, keras.optimizers.Adam


def data(*arrays: Any) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y)).batch(64)


def classifier(*middle: Any, **options: Any) -> Any:
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        hidden = layers.Dense(16, activation="relu", kernel_regularizer="l2")
        middle_layers = [each() for each in middle]
        model = keras.Sequential([keras.Input([8]), hidden, *middle_layers, layers.Dense(1, activation="sigmoid")])
        settings = {"loss": "binary_crossentropy", "metrics": ["accuracy", keras.metrics.AUC(name="auc")]} | options
        optimizer = settings.pop("optimizer", lambda: "adam")
        model.compile(optimizer=optimizer(), **settings)
    return model


def outcome(model: Any, history: Any) -> dict[str, Any]:
    return {"history": history.history, "weights": [weight.tolist() for weight in model.get_weights()]}


def fitted(model: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
    options = {"epochs": 2, "verbose": 0} | options
    return outcome(model, model.fit(*(arguments or (data(),)), **options))


class OwnStep(keras.Model):  # type: ignore[misc]
    """A `train_step` in the manner of Keras' guide, with the mean of the local batch as loss."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)

    def train_step(self, batch: Any) -> dict[str, Any]:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        return {"distance": loss}


def own_train_step() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = OwnStep()
        model.compile("sgd")
    history = model.fit(data(X[:128], Y[:128]), epochs=2, verbose=0)
    return outcome(model, history)


def masked() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    words = np.random.RandomState(3).randint(0, 5, [50, 7])
    with STRATEGY.scope():
        inputs = keras.Input([7], dtype="int32")
        hidden = layers.Embedding(5, 4, mask_zero=True)(inputs)
        model = keras.Model(inputs, layers.Dense(5)(layers.LSTM(4, return_sequences=True)(hidden)))
        # Adam treats rows of an embedding one by one if a word is repeated.
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return fitted(model, data(words, words))


def generator() -> dict[str, Any]:
    """The steps on a generator whose batches have no common length, so that no signature has it."""

    def batches() -> Iterator[tuple[Any, Any]]:
        for length in range(3, 8):
            yield np.ones([4, length, 2], "float32"), np.ones([4, 1], "float32")

    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([None, 2]), layers.GlobalAveragePooling1D(), layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(batches(), verbose=0)
    return {"steps": int(model.optimizer.iterations.numpy())}


def each_batch() -> dict[str, Any]:
    losses = []

    class BatchRecorder(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append([batch, float(logs["loss"])])

    return fitted(classifier(), callbacks=[BatchRecorder()]) | {"seen": losses}


def unknown_length() -> dict[str, Any]:
    """The batches that a callback sees at the end of an epoch of unknown length."""
    model = classifier()
    counts = []

    class BatchCountRecorder(keras.callbacks.ProgbarLogger):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            counts.append(self.seen)

    # Keras itself counts a step too many at the end of a data set of unknown length.
    batches = data() if "--alone" in sys.argv else data().filter(lambda *_: True)
    result = fitted(model, batches, epochs=4, callbacks=[BatchCountRecorder()])
    return result | {"seen": counts}


def sharded_by_file() -> dict[str, Any]:
    """The mean of all labels, in files of different lengths, and without any training."""
    folder = FOLDER / f"files-{INDEX}"
    folder.mkdir()
    for name, labels in (("a", Y[:120]), ("b", Y[120:])):
        (folder / name).write_text("".join(f"{value}\n" for value in labels.ravel()))
    lines = tf.data.TextLineDataset([str(folder / "a"), str(folder / "b")]).map(tf.strings.to_number)
    label = keras.metrics.MeanMetricWrapper
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([1]), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse", metrics=[label(lambda y, _: y, name="label")])
    batches = lines.map(lambda value: (value[None], value[None])).batch(64)
    history = model.fit(batches, epochs=2, validation_data=batches, verbose=0).history
    return {"labels": [*history["label"], *history["val_label"]]}


def embedding() -> dict[str, Any]:
    """Sparse gradients, of another number of rows in the last step of an epoch."""
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([8]), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(1)])
        model.compile("sgd", "mse")
    return fitted(model, data((np.abs(X * 7) % 20).astype("int32"), Y))


def images(*middle: Any) -> Any:
    """Operations that fail with 0 rows: a convolution, a sum with one pixel, and an LSTM."""
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        pixels = keras.Input([6, 6, 2])
        hidden = layers.Conv2D(3, 3, activation="relu")(pixels)
        for each in middle:
            hidden = each()(hidden)
        pooled = layers.GlobalAveragePooling2D(keepdims=True)(hidden)
        added = layers.Add()([pooled, layers.Conv2D(3, 1)(pooled)])
        outputs = layers.Dense(1)(layers.LSTM(3)(layers.Reshape([1, 3])(added)))
        model = keras.Model(pixels, outputs)
        model.compile(keras.optimizers.SGD(0.5), "mse", metrics=["mae"])
    return model


def fewer_rows_than_workers(*middle: Any) -> dict[str, Any]:
    """The last batch of each call has one row."""
    x = np.random.RandomState(5).randn(17, 6, 6, 2).astype("float32")
    y = x.sum((1, 2, 3))[:, None]
    model = images(*middle)
    result = fitted(model, x, y, batch_size=8, validation_data=(x[:9], y[:9]), validation_batch_size=4)
    scores = [model.evaluate(x[:rows], y[:rows], batch_size=4, verbose=0) for rows in (1, 9)]
    predictions = [model.predict(x[:rows], batch_size=4, verbose=0).tolist() for rows in (1, 2, 9)]
    data_set = tf.data.Dataset.from_tensor_slices(x[:5]).batch(2)
    predictions.append(model.predict(data_set, verbose=0).tolist())
    return result | {"scores": scores, "predictions": predictions}


class TwoStreams(OwnStep):
    """A `train_step` on labelled rows and three times as many rows without labels."""

    def train_step(self, batch: Any) -> dict[str, Any]:
        (x, y), other = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y)) + tf.reduce_mean(tf.square(self(other)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"distance": loss}


def zipped() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    with STRATEGY.scope():
        model = TwoStreams()
        model.compile("sgd")
    labelled = tf.data.Dataset.from_tensor_slices((X[:48], Y[:48])).batch(16)
    return fitted(model, tf.data.Dataset.zip(labelled, tf.data.Dataset.from_tensor_slices(-X[:144]).batch(48)))


def graphs() -> dict[str, Any]:
    """A batch is a graph: rows of nodes, and of edges."""
    model = classifier()
    edges = tf.data.Dataset.range(5, 8).map(lambda nodes: (tf.ones([nodes, 8]), tf.ones([2 * nodes, 1])))
    error = error_of(lambda: model.fit(edges, verbose=0))
    return {"error": error, "steps": int(model.optimizer.iterations.numpy())}


class Halves(keras.Model):  # type: ignore[misc]
    """A model of two inputs, which `call` gets as one tuple."""

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.whole = whole

    def call(self, inputs: Any) -> Any:
        first, second = inputs
        return self.whole(tf.concat([first, second], axis=1))


def steps_per_execution() -> dict[str, Any]:
    """Keras counts the last execution as a whole one if the script has set the number of steps."""
    ends: list[int] = []
    ended = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, **_: ends.append(batch))
    return fitted(classifier(steps_per_execution=3), callbacks=[ended]) | {"ends": ends}


def predict() -> dict[str, Any]:
    model = classifier()
    expected = model(X).numpy()
    predictions = {"array": model.predict(X, verbose=0), "data": model.predict(data(X), batch_size=None, verbose=0)}
    predictions["pair of arrays"] = Halves(model).predict((X[:, :4], X[:, 4:]), verbose=0)
    return {name: float(np.abs(values - expected).max()) for name, values in predictions.items()}


def decision_of_one_worker() -> dict[str, Any]:
    class Differs(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            if INDEX == 1:
                self.model.optimizer.learning_rate = 0.5
                self.model.stop_training = True

    return fitted(classifier(), callbacks=[Differs()])


def files() -> dict[str, Any]:
    """Files of callbacks, then one that only the chief saves; the workers have folders of their own."""
    folder = FOLDER / f"worker-{INDEX}"
    model = classifier()
    table, logs = keras.callbacks.CSVLogger(folder / "log.csv"), keras.callbacks.TensorBoard(folder / "logs")
    folder.mkdir()
    checkpoint = keras.callbacks.ModelCheckpoint(folder / "best.keras", monitor="loss", save_best_only=True)
    with STRATEGY.scope():  # in which saving must create no variable that other workers wait for
        fitted(model, callbacks=[table, logs, checkpoint])
    if INDEX == 0:
        model.save(folder / "last.keras")
        model.export(folder / "exported", verbose=False)
    model.save_weights(folder / "last.weights.h5")
    result = fitted(model, epochs=1)
    return result | {"files": sorted(path.name for path in folder.iterdir())}


def error_of(action: Callable[[], Any]) -> str:
    try:
        action()
    except (ValueError, RuntimeError, tf.errors.InvalidArgumentError) as error:
        return str(error)
    return ""


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    """So many batches of 32 rows."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    @property
    def num_batches(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return X[:32], Y[:32]


def own_lengths() -> dict[str, str]:
    """The errors if each worker has data of another length."""
    rows = (192, 96)[INDEX]
    x, y = X[:rows], Y[:rows]
    endless = data().repeat()
    model = classifier()
    actions: dict[str, Callable[[], Any]] = {
        "arrays": lambda: model.fit(x, y, verbose=0),
        "PyDataset": lambda: model.fit(Rows(rows // 32), verbose=0),
        "data set": lambda: model.fit(data(x, y), verbose=0),
        "steps of an epoch": lambda: model.fit(endless, steps_per_epoch=rows, verbose=0),
        "one of unknown length": lambda: model.fit(
            data().repeat() if INDEX else data(), steps_per_epoch=3 - INDEX, verbose=0
        ),
        "validation arrays": lambda: model.fit(X, Y, validation_data=(x, y), verbose=0),
        "validation split": lambda: model.fit(
            x, y, batch_size=rows, validation_split=0.5, validation_batch_size=9, verbose=0
        ),
        "validation PyDataset": lambda: model.fit(X, Y, validation_data=Rows(rows), verbose=0),
        "validation data set": lambda: model.fit(X, Y, validation_data=data(x, y), verbose=0),
        "evaluate": lambda: model.evaluate(x, y, verbose=0),
        "predict": lambda: model.predict(x, verbose=0),
    }
    errors = {name: error_of(action) for name, action in actions.items()}
    return errors | {"steps": str(int(model.optimizer.iterations.numpy()))}


def own_data() -> dict[str, str]:
    """What happens if each worker has equally many rows of other data, or the same data in its own order."""
    own = np.random.RandomState(INDEX).permutation(len(X))
    model = classifier()
    errors = {
        "arrays": error_of(lambda: model.fit(X[own], Y[own], verbose=0)),
        "validation": error_of(lambda: model.fit(X, Y, validation_data=(X[own], Y[own]), verbose=0)),
        "data set": error_of(lambda: model.fit(data(X[own], Y[own]), verbose=0)),
        "augmented": error_of(lambda: model.fit(data(X[own], Y), verbose=0)),
    }
    whole = tf.data.Options()
    whole.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    distributed = STRATEGY.distribute_datasets_from_function(
        lambda context: data(X[own], Y[own]).shard(context.num_input_pipelines, context.input_pipeline_id)
    )
    errors["distributed"] = error_of(lambda: model.fit(distributed, verbose=0))
    errors["OFF"] = error_of(lambda: model.fit(data(X[own], Y[own]).with_options(whole), verbose=0))
    return errors


def other_calls() -> dict[str, str]:
    """The errors if only the chief calls `predict` or `evaluate`."""
    model = classifier()

    def in_callback(**methods: Any) -> str:
        callback = keras.callbacks.LambdaCallback(**(methods if INDEX == 0 else {}))
        return error_of(lambda: model.fit(X, Y, callbacks=[callback], verbose=0))

    return {
        "at the end of an epoch": in_callback(on_epoch_end=lambda *_: model.predict(X, verbose=0)),
        "at the beginning": in_callback(on_train_begin=lambda *_: model.evaluate(X, Y, verbose=0)),
        "after fit": error_of(lambda: model.predict(X, verbose=0) if INDEX == 0 else model.evaluate(X, Y, verbose=0)),
    }


def compiled_outside() -> dict[str, Any]:
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input([8]), layers.Dense(1)])
    model.compile("adam", "mse")
    return {"error": error_of(lambda: model.fit(data(), verbose=0))}


class Noisy(keras.Layer):  # type: ignore[misc]
    """A layer with random numbers without a seed."""

    def call(self, x: Any, training: bool = False) -> Any:
        return x + keras.random.normal([8]) if training else x


class WithTest(keras.callbacks.TensorBoard):  # type: ignore[misc]
    """A callback that writes, and evaluates a second data set."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["test_loss"] = self.model.evaluate(X[:50], Y[:50], verbose=0)[0]
        super().on_epoch_end(epoch, logs)


class LoggedWithTest(keras.callbacks.CSVLogger):  # type: ignore[misc]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, (logs or {}) | {"test": float(self.model.predict(X[:3], verbose=0).sum())})


def points(folder: Path) -> list[list[Any]]:
    """Return the names and steps of what `TensorBoard` has written for batches."""
    files = sorted(folder.rglob("events*"))
    events = (event for path in files for event in tf.compat.v1.train.summary_iterator(str(path)))
    return [
        [each.tag, event.step] for event in events for each in event.summary.value if each.tag.startswith("batch_loss")
    ]


def written_by_subclasses() -> dict[str, Any]:
    """What callbacks write in a folder that the workers share: the history, files, and points of batches."""
    folder = FOLDER / "shared"
    model = classifier()
    callbacks = [
        WithTest(folder / "evaluated"),
        LoggedWithTest(folder / f"log-{INDEX}.csv"),
        keras.callbacks.TensorBoard(folder / f"batches-{INDEX}", update_freq=3, profile_batch=2),
    ]
    folder.mkdir(exist_ok=True)
    history = fitted(model, callbacks=callbacks, epochs=3)["history"]
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, input_signature=[tf.TensorSpec([None, 8])])
    archive.write_out(folder / f"archive-{INDEX}", verbose=False)
    tf.keras.models.save_model(model, folder / f"model-{INDEX}.keras")
    return {
        "history": history,
        "files": sorted(path.name for path in folder.iterdir() if path.stem.endswith(f"-{INDEX}")),
        "evaluated": len(list(folder.glob("evaluated/train/events*"))),
        "points": points(folder / f"batches-{INDEX}"),
        "profiles": [path.name for path in (folder / f"batches-{INDEX}").rglob("plugins/profile")],
    }


class OwnOptimizers(keras.Model):  # type: ignore[misc]
    """A `train_step` with an optimizer that is not the compiled one, and unseeded random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)
        self.noisy = Noisy()
        self.other_optimizer = keras.optimizers.Adam(0.1)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.dense(self.noisy(x, training=training))

    def train_step(self, batch: Any) -> dict[str, Any]:
        x, y = batch
        scale = keras.random.uniform([], 0.5, 1.5)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(scale * self(x, training=True) - y))
        variables = self.trainable_variables
        self.other_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return {"distance": loss, "scale": scale}


def idioms() -> dict[str, Any]:
    """What scripts do in callbacks and steps of one process."""
    seen: list[list[Any]] = []

    class Logger(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            optimizer = self.model.optimizer
            seen.append([float(optimizer.learning_rate), int(optimizer.iterations), int(optimizer.iterations.value)])

    fitted(classifier(), callbacks=[Logger()])
    with STRATEGY.scope():
        model = OwnOptimizers()
        model.compile(loss="mse")
    history = model.fit(data(), epochs=2, verbose=0).history
    model.fit(data(X[:100], Y[:100]), verbose=0)  # another trace
    model.predict(X[:3], verbose=0)
    return {"seen": seen, "history": history, "weights": [weight.tolist() for weight in model.get_weights()]}


def built_outside() -> dict[str, str]:
    """The errors if the weights of a model are made outside of the scope, or kept from batch to batch."""
    with STRATEGY.scope():
        called, adapted, stateful = OwnStep(), classifier(), keras.Sequential([layers.LSTM(2, stateful=True)])
        called.compile("adam")
        stateful.compile("adam", "mse")
        stateful.build((64, 3, 1))
    called(X[:2])
    adapted.layers[0].enable_lora(2)
    return {
        "called": error_of(lambda: called.fit(data(), verbose=0)),
        "adapted": error_of(lambda: adapted.fit(data(), verbose=0)),
        "stateful": error_of(lambda: stateful.fit(np.ones([128, 3, 1]), np.ones([128, 2]), batch_size=64, verbose=0)),
    }


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "data_set": lambda: fitted(classifier(), validation_data=(X[:77], Y[:77])),
    "arrays": lambda: fitted(classifier(), X, Y, batch_size=50, validation_split=0.2),
    "class_weight": lambda: fitted(classifier(), X, Y, class_weight={0: 1.0, 1: 3.0}),
    "sum_of_losses": lambda: fitted(classifier(loss=keras.losses.BinaryCrossentropy(reduction="sum"))),
    "mean_over_weights": lambda: fitted(
        classifier(loss=keras.losses.BinaryCrossentropy(reduction="mean_with_sample_weight")),
        data(X, Y, np.abs(X[:, 0])),
    ),
    "accumulation": lambda: fitted(classifier(optimizer=lambda: Adam(gradient_accumulation_steps=2, clipnorm=0.1))),
    "loss_scale": lambda: fitted(classifier(optimizer=lambda: keras.optimizers.LossScaleOptimizer(Adam()))),
    "moving_average": lambda: fitted(classifier(optimizer=lambda: Adam(use_ema=True, global_clipnorm=1.0))),
    "jit_compile": lambda: fitted(classifier(jit_compile=True)),
    "run_eagerly": lambda: fitted(classifier(run_eagerly=True), data(X[:129], Y[:129]), epochs=1),
    "batch_normalization": lambda: fitted(classifier(layers.BatchNormalization)),
    "fewer_rows_of_synchronized_statistics": lambda: fewer_rows_than_workers(
        lambda: layers.BatchNormalization(synchronized=True)
    ),
}
CASES |= {function.__name__: function for function in (
    masked, generator, steps_per_execution, embedding, own_train_step, each_batch, unknown_length, predict,
    sharded_by_file, fewer_rows_than_workers, zipped, graphs, decision_of_one_worker, files, compiled_outside,
    built_outside, idioms, written_by_subclasses, own_lengths, own_data, other_calls,
)}  # fmt: skip

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({name: CASES[name]() for name in sys.argv[2].split(",")}))
    if "--fail" in sys.argv:
        classifier().fit(data(X, Y[:, :0]), verbose=0)
