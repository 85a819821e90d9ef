"""Checks what the methods of a user's program return, and reports their errors with the name of the method.

Without these checks such an error would end a replica like a bug of the trainer, which a restart may resolve.
"""

import builtins
import functools
import re
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer.errors import ConfigurationError, cause_of, one_line
from tfdist_trainer.metrics.additive import AdditiveMetric
from tfdist_trainer.programs.base import Program

FIELD: Final = "training.program"

_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
    tf.errors.InvalidArgumentError,
)
"""Errors of the code of a method. Others, as of files and the network, may be absent after a restart."""

_OPTIONAL_WEIGHT: Final = (2, 3)
"""Parts of an example, without and with its weight."""


def with_checks(program: Program) -> Program:
    """Return `program` with methods that check what the user's methods return.

    They raise a ConfigurationError that names the method for an error of its code, and for a wrong result. What a
    step traces, such as `loss`, is not among them: see `traced`.
    """
    features: list[Any] = []

    def dataset(result: Any) -> None:
        _check_dataset(result)
        features[:] = [result.element_spec[0]]

    def model(result: Any) -> None:
        _check_model(result)
        for spec in features:
            _check_inputs(result, spec)

    checks: Mapping[str, Callable[[Any], None]] = {
        "dataset": dataset,
        "model": model,
        "optimizer": _check_optimizer,
        "metrics": _check_metrics,
        "serving_model": _check_model,
    }
    # On the object: subclasses of users may call `super()`.
    for name, check in checks.items():
        setattr(program, name, _check_method(name, getattr(program, name), check))
    return program


def _check_method(name: str, method: Callable[..., Any], check: Callable[[Any], None]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            result = method(*arguments, **options)
        except _ERRORS as error:
            traceback.print_exc()
            raise program_error(f"{name}()", type(error).__name__, cause_of(str(error))) from None
        check(result)
        return result

    return guarded


_PYTHON_ERROR: Final = re.compile(r"([A-Za-z_][\w.]*): ([^\n]*(?:\n[^\n]+)*?)\nTraceback \(most recent call last\):")
"""The exception of Python code that an operation of TensorFlow called, before its traceback."""
_OF_INPUT: Final = re.compile(r"IteratorGetNext|ReduceDataset|generator_py_func")


def dataset_error(error: tf.errors.OpError) -> ConfigurationError | None:
    """Return the error of `dataset()` that made an input pipeline fail with `error`; None for any other failure.

    It is an exception of a generator or another Python function, but not an error of files or the network.
    """
    match = _PYTHON_ERROR.search(error.message)
    if not match or not _OF_INPUT.search(error.message):
        return None
    kind = getattr(builtins, match[1], None)
    if isinstance(kind, type) and issubclass(kind, OSError | MemoryError):
        return None
    return program_error("dataset()", match[1], match[2])


def program_error(part: str, kind: str, text: str) -> ConfigurationError:
    """Return the error for an exception of type `kind` with the message `text`, which `part` of a program raises."""
    return ConfigurationError(f"{FIELD}: {part} raises {kind}: {one_line(text)}")


def _result_error(method: str, text: str) -> ConfigurationError:
    return ConfigurationError(f"{FIELD}: {method}() returns {text}")


def _check_dataset(dataset: Any) -> None:
    if not isinstance(dataset, tf.data.Dataset):
        raise _result_error("dataset", f"{_describe(dataset)}; return a tf.data.Dataset")
    element = dataset.element_spec
    parts = len(element) if isinstance(element, tuple) else 0
    if parts not in _OPTIONAL_WEIGHT:
        expected = "each example is (features, label) or (features, label, weight)"
        raise _result_error(
            "dataset", f"examples that are {f'{parts} parts' if parts else _describe(element)}; {expected}"
        )
    for spec in tf.nest.flatten(element):
        if not isinstance(spec, tf.TensorSpec):
            kind = type(spec).__name__.removesuffix("Spec")
            remedy = "return dense tensors of one shape, for example with RaggedTensor.to_tensor(shape=...)"
            raise _result_error("dataset", f"examples with a {kind}; {remedy}")
        if not spec.shape.is_fully_defined():
            remedy = "return one example at a time, without batch(), and pad or truncate examples of different sizes"
            raise _result_error(
                "dataset", f"examples of shape {spec.shape}, of which every size must be known; {remedy}"
            )
    weight = element[-1].shape if parts == max(_OPTIONAL_WEIGHT) else tf.TensorShape([])
    if not weight.is_compatible_with([]):
        remedy = "return one example at a time, without batch(), with one number as its weight"
        raise _result_error("dataset", f"weights of shape {weight}; {remedy}")


def _check_model(model: Any) -> None:
    if not callable(model) or not hasattr(model, "trainable_variables"):
        raise _result_error("model", f"{_describe(model)}; return a Keras model")


def _check_inputs(model: Any, features: Any) -> None:
    """Check features that are one tensor against the only input of a model, if both have shapes."""
    try:
        inputs: Any = model.inputs or []
    except (AttributeError, ValueError):  # a subclass of Model, or a Sequential without Input
        return
    if len(inputs) != 1 or not isinstance(features, tf.TensorSpec):
        return
    expected = tf.TensorShape(inputs[0].shape)[1:]
    if _fits(features.shape, expected):
        return
    batched = features.shape.rank > 0 and features.shape[1:].is_compatible_with(expected)
    remedy = "return one example at a time, without batch()" if batched else "make the shapes equal"
    text = f"features of shape {features.shape}, and model() has an input of shape {expected} for each example"
    raise _result_error("dataset", f"{text}; {remedy}")


def _fits(features: tf.TensorShape, expected: tf.TensorShape) -> bool:
    """Return whether an input takes `features`; Keras removes or adds a last axis of size 1."""
    forms = [features, features.concatenate([1])]
    if features.rank and features[-1] == 1:
        forms.append(features[:-1])
    return any(form.is_compatible_with(expected) for form in forms)


def _check_optimizer(optimizer: Any) -> None:
    if not hasattr(optimizer, "apply_gradients"):
        text = f"{_describe(optimizer)}; return an optimizer, such as keras.optimizers.Adam(1e-3 * scale)"
        raise _result_error("optimizer", text)


def _check_metrics(metrics: Any) -> None:
    if not isinstance(metrics, list | tuple):
        raise _result_error("metrics", f"{_describe(metrics)}; return a list of metrics")
    for metric in metrics:
        if not isinstance(metric, AdditiveMetric | keras.metrics.Metric):
            remedy = "return metrics of Keras 3, or tfdist_trainer.WeightedMean"
            raise _result_error("metrics", f"a list with {_describe(metric)}; {remedy}")


def _describe(value: Any) -> str:
    """Return a value of a simple type with its type, and of any other the type alone."""
    kind = type(value).__name__
    return f"{value!r}, a {kind}" if isinstance(value, str | int | float) else f"a {kind}"
