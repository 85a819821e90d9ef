"""Validates `training.program` and `training.config` of the bundled programs, without TensorFlow or the trainer.

`programs.json` has the JSON schemas of the trainer's models (`make generate`). Each is converted to a pydantic
validator, which accepts quoted numbers as the trainer does. The trainer validates more when it starts, such as the
columns of a table. Classes (`package.module:Class`) and programs of other images are not validated.

Fields and values that have been renamed are accepted under the former name too, and reported with a warning. The
schemas hold these names (`x-formerName`, `x-formerValues`).
"""

import functools
import json
import pathlib
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import SchemaValidator

from tfdist import messages
from tfdist.api.training import TrainingSpec
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role, Task
from tfdist.render.template import runs_bundled_trainer
from tfdist.validation.errors import FieldError
from tfdist.validation.model_errors import message_of
from tfdist.validation.program_schema import FORMER_VALUES, Schema, errors, names_of, options_of, resolved, validator

_FILE: Final = pathlib.Path(__file__).with_name("programs.json")
_CONFIG: Final = ("spec", "training", "config")
_REFERENCE: Final = "see docs/reference/trainer.md"
_MIN_CLASSES: Final = 2


def program_problems(job: TFDistJob, templates: Mapping[Role, Mapping[str, Any]]) -> Iterator[FieldError]:
    """Yield the errors of `training`, where the bundled trainer of the installation's image runs it.

    Args:
        job: a well-formed job.
        templates: merged template of each role; it shows whether the role runs the bundled trainer.
    """
    training = job.spec.training
    bundled = {role for role, template in templates.items() if runs_bundled_trainer(template)}
    if training is None or training.program is None or ":" in training.program or not bundled:
        return
    known = programs()
    if training.program not in known:
        text = messages.unsupported(training.program, [*known, "package.module:Class"])
        yield FieldError("spec.training.program", text)
        return
    yield from _config_problems(training.program, training.config or {})
    yield from _data_problems(job, training, bundled)


def program_warnings(job: TFDistJob, templates: Mapping[Role, Mapping[str, Any]]) -> Iterator[FieldError]:
    """Yield the former names of fields and values in `training.config`, each with the current name.

    Args:
        job: a valid job.
        templates: merged template of each role; it shows whether the role runs the bundled trainer.
    """
    training = job.spec.training
    if training is None or training.program is None or not any(map(runs_bundled_trainer, templates.values())):
        return
    schema = programs().get(training.program, {})
    yield from _former_names(training.config or {}, schema, schema.get("$defs", {}), _CONFIG)


def _former_names(config: Any, schema: Schema, defs: Schema, location: tuple[str | int, ...]) -> Iterator[FieldError]:
    if not isinstance(config, Mapping):
        return
    for name, node in schema.get("properties", {}).items():
        given = next((key for key in names_of(name, node) if key in config), None)
        if given is None:
            continue
        path, value = messages.join_path((*location, given)), config[given]
        values = node.get(FORMER_VALUES, {})
        renamed = isinstance(value, str) and value in values
        if renamed or given not in {name, to_snake(name)}:
            yield FieldError(
                path, f"former name; use {name}: {values[value]}" if renamed else f"former name; use {name}"
            )
        yield from _former_names(value, options_of(node, defs)[0], defs, (*location, given))


@functools.cache
def programs() -> Mapping[str, Schema]:
    """Return the JSON schema of the configuration of each bundled program, by name."""
    content: dict[str, Schema] = json.loads(_FILE.read_bytes())
    return content


def _config_problems(program: str, config: Mapping[str, Any]) -> Iterator[FieldError]:
    schema = programs()[program]
    try:
        _validator(program).validate_python(config)
    except ValidationError as error:
        for each in errors(error):
            yield FieldError(messages.join_path((*_CONFIG, *each["loc"])), _message(each, schema, config))
        return
    yield from _exclusive(config, schema, schema.get("$defs", {}), _CONFIG)


def _message(error: Mapping[str, Any], schema: Schema, config: Mapping[str, Any]) -> str:
    if error["type"] != "extra_forbidden":
        return message_of(error) + _count_instead(error["loc"], config)
    fields = _fields_at(schema, error["loc"][:-1])
    current = next((name for name, node in fields.items() if error["loc"][-1] in names_of(name, node)), None)
    if current is not None:
        return messages.forbidden(f"former name of {current}, which is set too; remove one of them")
    return messages.unknown_field(str(error["loc"][-1]), fields, _REFERENCE)


def _count_instead(location: tuple[str | int, ...], config: Mapping[str, Any]) -> str:
    """Return the advice for `classes: [0, 1]`: labels that are numbers from 0 have no names."""
    classes = config.get("classes")
    if location[:1] != ("classes",) or not isinstance(classes, list) or len(classes) < _MIN_CLASSES:
        return ""
    counted = all(type(item) is int and item == number for number, item in enumerate(classes))
    return f", or set classes: {len(classes)} for labels 0 to {len(classes) - 1}" if counted else ""


def _fields_at(schema: Schema, location: tuple[str | int, ...]) -> Schema:
    """Return the fields of the object at `location`, by name."""
    node, defs = schema, schema.get("$defs", {})
    for part in location:
        node = options_of(node.get("properties", {}).get(part, {}), defs)[0]
    fields: Schema = resolved(node, defs).get("properties", {})
    return fields


def _data_problems(job: TFDistJob, training: TrainingSpec, bundled: AbstractSet[Role]) -> Iterator[FieldError]:
    """Yield absent files of training or evaluation data; all bundled programs read files."""
    data = (training.config or {}).get("data")
    if not isinstance(data, Mapping):
        return
    trains = job.spec.task is Task.TRAIN and bundled & {Role.CHIEF, Role.WORKER}
    evaluates = bundled & {Role.EVALUATION} or (bundled & {Role.EVALUATOR} and _has_evaluator(job))
    for name, needed, verb in (("train", trains, "train"), ("eval", evaluates, "evaluate")):
        if needed and not data.get(name):
            text = messages.required(f"the data to {verb} on; set a pattern of files, such as /data/*.csv")
            yield FieldError(f"spec.training.config.data.{name}", text)


def _has_evaluator(job: TFDistJob) -> bool:
    return job.spec.evaluation is not None and job.spec.evaluation.mode.during_training


def _exclusive(config: Any, schema: Schema, defs: Schema, location: tuple[str | int, ...]) -> Iterator[FieldError]:
    """Yield mutually exclusive fields; in JSON Schema they are `{"not": {"required": [...]}}`."""
    if not isinstance(config, Mapping):
        return
    for rule in schema.get("allOf", ()):
        names = rule["not"]["required"]
        if all(_given(config, name, schema) is not None for name in names):
            text = f"{' and '.join(names)} are mutually exclusive; keep one of them"
            yield FieldError(messages.join_path((*location, names[-1])), text)
    for name, node in schema.get("properties", {}).items():
        yield from _exclusive(_given(config, name, schema), options_of(node, defs)[0], defs, (*location, name))


def _given(config: Mapping[str, Any], name: str, schema: Schema) -> Any:
    node = schema.get("properties", {}).get(name, {})
    return next((config[key] for key in names_of(name, node) if key in config), None)


@functools.cache
def _validator(program: str) -> SchemaValidator:
    return validator(programs()[program])
