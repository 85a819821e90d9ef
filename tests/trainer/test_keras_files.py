"""Files that a script saves under several workers: the chief writes them, and the others wait for them."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.python.saved_model import loader_impl

from tfdist_trainer.keras import files
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer


@pytest.fixture(autouse=True)
def second_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this process worker 1 of two, which does not wait long."""
    monkeypatch.setattr(files, "worker_of", lambda _strategy: Worker(index=1, count=2, replicas_per_worker=1))
    monkeypatch.setattr(files, "WAIT_SECONDS", 0.2)


def save(path: Path) -> None:
    files.by_chief(lambda *_: pytest.fail("worker 1 writes"))(SimpleNamespace(distribute_strategy=None), path)


def load(original: Callable[..., Any]) -> Callable[..., Any]:
    return files.when_written(original, path_of=lambda path: path)


@pytest.mark.parametrize(
    ("original", "kind"),
    [
        (keras.saving.load_model, ValueError),
        (Path.read_text, FileNotFoundError),
        (tf.saved_model.load, FileNotFoundError),
    ],
)
def test_a_file_of_the_chief_that_does_not_come_is_an_error_with_the_reason_and_the_remedy(
    tmp_path: Path, original: Callable[..., Any], kind: type[Exception]
) -> None:
    path = tmp_path / "best.keras"
    save(path)
    with pytest.raises(kind, match=r"only the chief writes what Keras saves.* a volume that all pods mount") as raised:
        load(original)(path)
    assert str(path) in str(raised.value)


def test_a_file_that_no_worker_has_saved_keeps_the_error_of_its_function(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        load(Path.read_text)(tmp_path / "absent")


def test_a_file_of_the_chief_with_an_error_of_its_own_keeps_it(tmp_path: Path) -> None:
    save(tmp_path / "best.keras")
    (tmp_path / "best.keras").write_text("no model")
    with pytest.raises(ValueError, match="Please ensure the file is an accessible"):
        load(keras.saving.load_model)(tmp_path / "best.keras")


def test_a_file_that_the_chief_has_written_is_loaded(tmp_path: Path) -> None:
    save(tmp_path / "best")
    (tmp_path / "best").write_text("of the chief")
    assert load(Path.read_text)(tmp_path / "best") == "of the chief"


def test_a_table_that_another_worker_has_exported_is_of_this_worker(tmp_path: Path) -> None:
    # given a model whose functions name the device of the process that exports it
    exported = tf.Module()
    exported.table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, default_value=-1)
    exported.find = tf.function(exported.table.lookup, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(exported, str(tmp_path))
    saved, debug = loader_impl.parse_saved_model_with_debug_info(str(tmp_path))
    assert any(device.startswith("/job:") for device in devices(saved))
    # when it is read
    read, _ = files.on_this_worker(lambda _: (saved, debug))(str(tmp_path))
    # then they name the device alone
    assert "/device:CPU:0" in devices(read)
    assert not any(device.startswith("/job:") for device in devices(read))


def devices(model: Any) -> set[str]:
    library = model.meta_graphs[0].graph_def.library
    return {node.device for function in library.function for node in function.node_def if node.device}
