"""Whom the Lease belongs to, so that it goes with the installation."""

import base64
import json

import pytest
from support.fake_api import served

from tfdist_operator.leader_election.lease_lock import LeaderElectionRecord, LeaseLock, lease_owner

CLAIMS = {"kubernetes.io": {"namespace": "tfdist-system", "serviceaccount": {"name": "tfdist", "uid": "a-uid"}}}
TOKEN = f"header.{base64.urlsafe_b64encode(json.dumps(CLAIMS).encode()).decode().rstrip('=')}.signature"
RECORD = LeaderElectionRecord("a-replica", 15, "2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z", 0)
OWNER = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "tfdist", "uid": "a-uid"}


async def test_the_lease_belongs_to_the_service_account_of_the_controller() -> None:
    async with served() as (api, client):
        await LeaseLock(client, "tfdist-system", "tfdist-controller", TOKEN).write(RECORD)
        (lease,) = [stored for path, stored in api.objects.items() if "/leases/" in path]
    assert lease["metadata"]["ownerReferences"] == [OWNER]


def test_an_account_of_another_namespace_does_not_own_the_lease() -> None:
    assert lease_owner(TOKEN, "tfdist-system") == OWNER
    assert lease_owner(TOKEN, "another") is None, "Kubernetes would remove the Lease at once"


@pytest.mark.parametrize(
    "token",
    [None, "", "opaque", "a.b.c", "a.!!!.c", "a.W10.c", "a.e30.c", "a.eyJrdWJlcm5ldGVzLmlvIjp7fX0.c"],
)
def test_a_token_that_names_no_account_gives_the_lease_no_owner(token: str | None) -> None:
    assert lease_owner(token, "tfdist-system") is None
