"""The Lease goes with the installation: it belongs to the ServiceAccount whose token the controller has."""

import pytest
from support.api import Api
from support.polling import wait_for

from tfdist_operator.leader_election.lease_lock import lease_owner

pytestmark = pytest.mark.integration


def test_a_lease_goes_with_the_service_account_that_a_real_token_names(api: Api, namespace: str) -> None:
    accounts, leases = (
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
    )
    account = api.do("POST", accounts, {"metadata": {"name": "ours"}})
    token = api.do("POST", f"{accounts}/ours/token", {"spec": {"expirationSeconds": 600}})["status"]["token"]
    owner = lease_owner(token, namespace)
    assert owner == {"apiVersion": "v1", "kind": "ServiceAccount", "name": "ours", "uid": account["metadata"]["uid"]}
    assert lease_owner(token, "another") is None, "an owner in another namespace would remove the Lease at once"
    api.do("POST", leases, {"metadata": {"name": "ours", "ownerReferences": [owner]}, "spec": {"holderIdentity": "a"}})
    api.do("DELETE", f"{accounts}/ours")
    wait_for("the Lease to go", lambda: api.send("GET", f"{leases}/ours").status_code == 404, seconds=60)
