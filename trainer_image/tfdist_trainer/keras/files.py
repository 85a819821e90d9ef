"""Files of a script under several workers: `save`, `save_weights` and `export` write once, on the chief."""

from collections.abc import Callable
from typing import Any

from tfdist_trainer.upstream.strategy_worker import worker_of


def by_chief(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Keras that saves its first argument, without effect on workers that are not the chief."""

    def save(model: Any, *args: Any, **kwargs: Any) -> Any:
        worker = worker_of(getattr(model, "distribute_strategy", None))
        return original(model, *args, **kwargs) if worker is None or worker.is_chief else None

    return save
