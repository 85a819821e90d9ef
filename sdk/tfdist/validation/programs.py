"""Validates `training.program` and `training.config` of the bundled programs, without TensorFlow or the trainer.

The models of `tfdist.programs` validate the configuration, as in the trainer; `program_rules` has the rules between it
and the job. Classes (`package.module:Class`) and programs of other images are not validated.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.programs import MODELS, config_model
from tfdist.render.template import runs_bundled_trainer
from tfdist.validation.config_errors import config_errors
from tfdist.validation.errors import FieldError
from tfdist.validation.program_rules import CONFIG, data_problems, job_problems

_REFERENCE: Final = "see docs/reference/trainer.md"


def program_problems(job: TFDistJob, templates: Mapping[Role, Mapping[str, Any]]) -> Iterator[FieldError]:
    """Yield the errors of `training`, if the bundled trainer of the installation's image runs it.

    Args:
        job: a well-formed job.
        templates: merged template of each role; it shows whether the role runs the bundled trainer.
    """
    training = job.spec.training
    bundled = {role for role, template in templates.items() if runs_bundled_trainer(template)}
    if training is None or training.program is None or ":" in training.program or not bundled:
        return
    if training.program not in MODELS:
        text = messages.unsupported(training.program, [*MODELS, "package.module:Class"])
        yield FieldError("spec.training.program", text)
        return
    model, content = config_model(training.program), training.config or {}
    yield from data_problems(job, content.get("data"), bundled)
    try:
        config = model.model_validate(content)
    except ValidationError as error:
        yield from config_errors(error, model, content, CONFIG, _REFERENCE)
    else:
        yield from job_problems(job, config, bundled)
