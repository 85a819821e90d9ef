"""Whom the Lease belongs to, so that it goes with the installation."""

import pytest

from tfdist_operator.kube.lease_owner import lease_owner


@pytest.mark.parametrize(
    "token",
    [None, "", "opaque", "a.b.c", "a.!!!.c", "a.W10.c", "a.e30.c", "a.eyJrdWJlcm5ldGVzLmlvIjp7fX0.c"],
)
def test_a_token_that_names_no_account_gives_the_lease_no_owner(token: str | None) -> None:
    assert lease_owner(token, "tfdist-system") is None
