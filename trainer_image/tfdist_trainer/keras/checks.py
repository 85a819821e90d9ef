"""Errors of a script that would fail deep inside TensorFlow: messages before the first step, with the remedy."""

from typing import Any, Final

from tfdist_trainer.upstream.keras_fit import is_of_strategy

_REMEDY: Final = (
    "Create the model, its optimizer and its metrics, and call compile(), inside of `with strategy.scope():`."
)


def check(model: Any) -> None:
    """Check a compiled model of several workers before `fit`.

    Raises:
        ValueError: an optimizer or a metric was created outside of the scope of the model's strategy.
    """
    optimizer = getattr(model, "optimizer", None)
    for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if each is not None and not is_of_strategy(each, model.distribute_strategy):
            raise ValueError(
                f"The optimizer {each.name!r} was made outside of the scope of the strategy of {model.name!r}. "
                f"{_REMEDY}"
            )
    for metric in getattr(model, "metrics", []):
        if any(not _is_distributed(variable) for variable in metric.variables):
            raise ValueError(
                f"The metric {metric.name!r} was made outside of the scope of the strategy of {model.name!r}. {_REMEDY}"
            )


def _is_distributed(variable: Any) -> bool:
    return hasattr(variable.value, "distribute_strategy")
