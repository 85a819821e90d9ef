"""A file with a model brings no code into the trainer: only Keras' own zip files are loaded, by both Keras versions."""

import errno
import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.programs import model_file

pytestmark = pytest.mark.trainer


def small(*last: Any) -> Any:
    return keras.Sequential([keras.layers.Input([4]), keras.layers.Dense(2), *last])


def as_hdf5(path: Path) -> None:
    small().save(path.with_suffix(".h5"))
    path.with_suffix(".h5").rename(path)


def as_saved_model(path: Path) -> None:
    small().export(path, verbose=False)


def as_unpacked(path: Path) -> None:
    small().save(path.with_name("whole.keras"))
    shutil.unpack_archive(path.with_name("whole.keras"), path, "zip")


def as_other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "no model")


def as_bomb(path: Path) -> None:
    small().save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assets/zeros", bytes(2**24))


def as_lambda(path: Path) -> None:
    small(keras.layers.Lambda(lambda x: x + 1)).save(path)


def cut_short(path: Path) -> None:
    small().save(path)
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as whole, zipfile.ZipFile(path, "w") as damaged:
        for name in whole.namelist():
            damaged.writestr(name, whole.read(name)[: 2048 if name.endswith(".h5") else None])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (as_hdf5, r"not the zip file of a Keras model; HDF5 files and SavedModels .*model\.save\(\"x\.keras\"\)"),
        (as_saved_model, r"it is not a file, .*save the model with model\.save\(\"x\.keras\"\)"),
        (as_unpacked, r"it is not a file, .*save the model with model\.save"),
        (as_other_zip, r"the zip file has no config\.json, .*save the model with model\.save"),
        (as_bomb, r"its content of \d+ bytes is more than 100 times as large as the file, .*save the model"),
        (as_lambda, r"a part that brings code, such as a Lambda layer, which is not run; .*package\.module:Class"),
        (cut_short, r"\w+"),
    ],
)  # fmt: skip
def test_what_is_not_a_zip_file_of_layers_ends_the_job_with_the_remedy(
    write: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.keras"
    write(path)
    with pytest.raises(ConfigurationError, match=rf"^training\.config\.model: cannot load {path}: .*{message}"):
        model_file.load(str(path), "training.config.model")


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_an_error_of_the_storage_is_not_taken_for_a_wrong_file(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    path = tmp_path / "x.keras"
    small().save(path)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "open", fail)
    # when, then
    with pytest.raises(StorageError, match=rf"^{path}: cannot be read: .* \({errno.errorcode[code]}\)"):
        model_file.load(str(path), "training.config.model")


TF_KERAS = """
    import json, pathlib, sys, zipfile
    import tf_keras
    from tfdist_trainer.errors import ConfigurationError
    from tfdist_trainer.programs import model_file

    folder = pathlib.Path(sys.argv[1])
    layers = tf_keras.layers

    def ordinary():
        image = layers.Input([4, 4, 1], dtype="uint8")
        hidden = layers.Conv2D(2, 3, activation="relu", kernel_regularizer="l2")(layers.Rescaling(1 / 255)(image))
        hidden = layers.Flatten()(layers.BatchNormalization()(hidden))
        hidden = layers.Bidirectional(layers.LSTM(2))(layers.Reshape([-1, 2])(hidden))
        inner = tf_keras.Sequential([layers.Input([4]), layers.Dense(3, activation=tf_keras.activations.softmax)])
        inner.compile(tf_keras.optimizers.Adam(tf_keras.optimizers.schedules.ExponentialDecay(0.1, 9, 0.9)), "mse")
        model = tf_keras.Model(image, inner(hidden))
        model.compile("sgd", lambda labels, predictions: predictions, [tf_keras.metrics.AUC()])
        return model

    def small(*last):
        return tf_keras.Sequential([layers.Input([4]), layers.Dense(2), *last])

    def with_operation():
        inputs = layers.Input([4])
        return tf_keras.Model(inputs, inputs + 1)

    def of_config(change):
        small().save(folder / "plain.keras")
        with zipfile.ZipFile(folder / "plain.keras") as plain, zipfile.ZipFile(folder / "x.keras", "w") as changed:
            for name in plain.namelist():
                content = plain.read(name)
                if name == "config.json":
                    config = json.loads(content)
                    change(config)
                    content = json.dumps(config).encode()
                changed.writestr(name, content)

    def function(module, name):
        return {"module": module, "class_name": "function", "config": name, "registered_name": name}

    def calls(module, name, **arguments):
        config = {"function": function(module, name), "function_type": "function", "module": None, "output_shape": None,
                  "output_shape_type": "raw", "output_shape_module": None, "arguments": arguments}
        layer = {"module": "keras.layers", "class_name": "Lambda", "config": config, "registered_name": None}
        return lambda config: config["config"]["layers"].append(layer)

    def activation(module, name):
        return lambda config: config["config"]["layers"][-1]["config"].update(activation=function(module, name))

    def layer(module, name):
        added = {"module": module, "class_name": name, "config": {}, "registered_name": None}
        return lambda config: config["config"]["layers"].append(added)

    def loaded():
        model_file.load(str(folder / "x.keras"), "training.config.model")
        return "loaded"

    def outcome(write):
        write()
        try:
            return loaded()
        except ConfigurationError as error:
            return str(error).replace(str(folder), "FOLDER")

    def hdf5():
        small(layers.Lambda(lambda x: open(MARKER, "w") and x)).save(folder / "x.h5")
        pathlib.Path(MARKER).unlink()  # of the layer's call in this process
        (folder / "x.h5").rename(folder / "x.keras")

    print(json.dumps({name: outcome(write) for name, write in {
        "ordinary": lambda: ordinary().save(folder / "x.keras"),
        "lambda": lambda: small(layers.Lambda(lambda x: x + 1)).save(folder / "x.keras"),
        "operation": lambda: with_operation().save(folder / "x.keras"),
        "function of a module": lambda: of_config(calls("marker_module", "run")),
        "activation of a module": lambda: of_config(activation("marker_module", "run")),
        "layer of a module": lambda: of_config(layer("marker_module", "Run")),
        "module within tf_keras": lambda: of_config(layer("keras.src.saving.saving_lib", "os.system")),
        "function of Python": lambda: of_config(activation("builtins", "eval")),
        "function of tf_keras": lambda: of_config(activation("keras.utils", "get_file")),
        "HDF5": hdf5,
    }.items()}))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], bool]:
    """What a process whose models are those of `tf_keras` makes of each file, and whether one has run code."""
    folder = tmp_path_factory.mktemp("models")
    marker = folder / "marker"
    (folder / "marker_module.py").write_text(f"open({str(marker)!r}, 'w').close()\nrun = Run = print\n")
    script = folder / "script.py"  # tf_keras reads the source of a lambda
    script.write_text(f"MARKER = {str(marker)!r}\n{textwrap.dedent(TF_KERAS)}")
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(folder)])
    environ = os.environ | {"TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": path}
    command = [sys.executable, str(script), str(folder)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), marker.exists()


def test_tf_keras_loads_a_model_of_its_layers(outcomes: tuple[dict[str, str], bool]) -> None:
    assert outcomes[0]["ordinary"] == "loaded"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("lambda", "it names 'keras.layers.Lambda'"),
        ("operation", "it names 'tf_keras.src.layers.core.tf_op_layer.TFOpLambda'"),
        ("function of a module", "it names 'keras.layers.Lambda'"),
        ("activation of a module", "it names 'marker_module.run'"),
        ("layer of a module", "it names 'marker_module.Run'"),
        ("module within tf_keras", "it names 'keras.src.saving.saving_lib.os.system'"),
        ("function of Python", "it names 'builtins.eval'"),
        ("function of tf_keras", "it names 'keras.utils.get_file'"),
        ("HDF5", "it is not the zip file of a Keras model"),
    ],
)
def test_tf_keras_loads_no_file_that_brings_code(
    case: str, message: str, outcomes: tuple[dict[str, str], bool]
) -> None:
    assert outcomes[0][case].startswith(f"training.config.model: cannot load FOLDER/x.keras: {message}")
    assert not outcomes[1], "a file has run code"
