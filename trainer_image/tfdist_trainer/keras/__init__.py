"""Support for Keras scripts: `enable()` for `fit` on several workers, `Progress()` for its progress in the status.

Importing this package imports neither Keras nor TensorFlow.
"""

from tfdist_trainer.keras.progress import Progress

__all__ = ["Progress", "enable"]


def enable() -> None:
    """Make `fit`, `evaluate` and `predict` of Keras 3 run under `MultiWorkerMirroredStrategy` with several workers.

    To be called before the script creates a model. Calls after the first one do nothing. Models of one worker, of other
    strategies and of `tf_keras` are left to Keras.
    """
    from tfdist_trainer.keras.engine import install  # noqa: PLC0415  imports TensorFlow and Keras

    install()
