"""A security context that the API server or the kubelet rejects is an error of its field, before a pod is created."""

from typing import Any

import pytest
from support.security_contexts import ACCEPTED, REJECTED

from tfdist.validation import ValidationFailed, parse

Json = dict[str, Any]


@pytest.mark.parametrize(("given", "path", "message"), REJECTED.values(), ids=REJECTED)
def test_a_security_context_that_no_cluster_accepts_is_an_error_of_its_field(
    given: Json, path: str, message: str
) -> None:
    with pytest.raises(ValidationFailed) as failed:
        parse(given)
    (error,) = failed.value.problems
    assert error.path == f"spec.template.spec.{path}"
    assert error.message.startswith(message)


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
def test_a_security_context_that_a_cluster_accepts_is_valid(given: Json) -> None:
    assert parse(given)
