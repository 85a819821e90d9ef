"""Validates jobs whose checkpoints are in an object store: what the bundled trainer does not support there."""

from collections.abc import Iterator

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.programs.data import OBJECT_STORES
from tfdist.validation.errors import FieldError


def object_store_problems(job: TFDistJob) -> Iterator[FieldError]:
    """Yield an error for a TensorBoard without a directory of its own."""
    checkpoint, training, board = job.spec.checkpoint, job.spec.training, job.spec.tensor_board
    if checkpoint is None or training is None or not checkpoint.directory.startswith(OBJECT_STORES):
        return
    if board is not None and board.log_directory is None:
        text = "checkpoints in an object store have no event files; set logDirectory, for example to a path on a volume"
        yield FieldError("spec.tensorBoard.logDirectory", messages.required(text))
