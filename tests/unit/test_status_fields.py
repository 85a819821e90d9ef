"""The fields of the status that a plan may set are fields of the status."""

from tfdist.api.status import TFDistJobStatus
from tfdist.status.update import StatusFields


def test_each_field_that_a_plan_may_set_is_a_field_of_the_status() -> None:
    assert StatusFields.__annotations__.keys() <= TFDistJobStatus.model_fields.keys()
