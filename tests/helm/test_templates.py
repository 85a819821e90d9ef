"""The objects that the chart renders from its values: compared with stored ones, and rules for all of them."""

import json
import pathlib
from typing import Any

import pytest
import yaml
from support.api import Json
from support.chart import NAMESPACE, VALUES, Chart

from tfdist import contract
from tfdist_operator import config, permissions

GOLDEN = pathlib.Path(__file__).parent / "golden"
CONFIG_SOURCE = pathlib.Path(config.__file__).read_text()
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def golden_text(objects: list[Json]) -> str:
    """Return the objects but for the definition and the dashboards, which are generated from other stored files."""
    shown = [o for o in objects if o["kind"] not in {"CustomResourceDefinition", "ConfigMap"}]
    return yaml.safe_dump_all(shown, sort_keys=True, width=110)


@pytest.mark.parametrize("name", VALUES)
def test_the_objects_are_the_stored_ones(chart: Chart, name: str, pytestconfig: pytest.Config) -> None:
    made, path = golden_text(chart.render(**VALUES[name])), GOLDEN / f"{name}.yaml"
    if pytestconfig.getoption("--update-golden", default=False):
        path.write_text(made)
    assert made == path.read_text(), "`pytest tests/helm --update-golden` stores what is rendered now; read the diff"


def test_named_namespaces_get_roles_and_nothing_of_the_whole_cluster(chart: Chart) -> None:
    objects = chart.render(**VALUES["namespaced"])
    assert not [o for o in objects if o["kind"] in CLUSTER_WIDE]
    named = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Role", "tfdist-controller")]
    roles = {role["metadata"]["namespace"]: role for role in named}
    assert roles.keys() == {"team-a", "team-b"}
    assert all(role["rules"] == permissions.job_rules() for role in roles.values())


def test_the_controller_s_cluster_role_is_the_list_of_its_calls(chart: Chart) -> None:
    assert chart.one("ClusterRole", "tfdist-controller")["rules"] == permissions.job_rules()


def test_the_controller_creates_secrets_of_jobs_and_reads_none(chart: Chart) -> None:
    rules = chart.one("ClusterRole", "tfdist-controller")["rules"]
    assert [rule["verbs"] for rule in rules if {"secrets", "*"} & {*rule["resources"]}] == [["create"]]


@pytest.mark.parametrize("resource", ["tfdistjobs", "tfdistsweeps"])
def test_users_see_jobs_and_sweeps_by_the_role_view_and_write_them_by_edit_and_admin(
    chart: Chart, resource: str
) -> None:
    rights = {
        verb: {
            label.rpartition("-")[2]
            for role in chart.render()
            if role["kind"] == "ClusterRole"
            and any(verb in rule["verbs"] and resource in rule["resources"] for rule in role["rules"])
            for label in role["metadata"]["labels"]
            if label.startswith("rbac.authorization.k8s.io/aggregate-to-")
        }
        for verb in ("list", "create")
    }
    assert rights == {"list": {"view", "edit", "admin"}, "create": {"edit", "admin"}}


@pytest.mark.parametrize("plural", ["tfdistjobs", "tfdistsweeps"])
@pytest.mark.parametrize("keep", [True, False])
def test_a_definition_stays_at_an_uninstallation_unless_configured_otherwise(
    chart: Chart, plural: str, *, keep: bool
) -> None:
    definition = chart.one("CustomResourceDefinition", f"{plural}.tfdist.dev", crds={"keep": keep})
    kept = (definition["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"
    assert kept is keep
    stored = yaml.safe_load((pathlib.Path(__file__).parents[2] / f"crds/{plural}.yaml").read_text())
    assert definition["spec"] == stored["spec"]


@pytest.mark.parametrize("crds", [{"keep": True}, {"keep": False}, {"install": False}], ids=str)
def test_users_keep_their_access_to_jobs_at_an_uninstallation_that_keeps_the_definition(
    chart: Chart, crds: Json
) -> None:
    of_users = [
        role
        for role in chart.render(crds=crds)
        if any("aggregate-to" in label for label in role["metadata"].get("labels") or ())
    ]
    policies = {(role["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") for role in of_users}
    assert len(of_users) == 2
    assert policies == {"keep" if crds == {"keep": True} else None}


def test_the_variables_are_ones_that_the_controller_understands(chart: Chart) -> None:
    (container,) = chart.one("Deployment", **VALUES["everything"])["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    settings = config.from_environment(given)
    assert settings.workers == 32
    assert settings.log_level == "DEBUG"
    assert settings.resync_seconds == 300
    assert settings.installation.cluster_domain == "example.org"
    assert settings.installation.pod_defaults == VALUES["everything"]["podDefaults"]
    assert settings.lease_name == "training"
    assert all(name in CONFIG_SOURCE for name in given), "a variable that no setting reads"


def test_the_lease_that_the_role_names_is_the_one_that_is_used(chart: Chart) -> None:
    role = chart.one("Role", "training-lease", **VALUES["everything"])
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["training"]]


def test_the_controller_knows_the_labels_by_which_policies_of_jobs_admit_its_pods(chart: Chart) -> None:
    deployment = chart.one("Deployment", fullnameOverride="training")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    labels = config.from_environment(given).installation.controller_labels
    assert labels == deployment["selector"]["matchLabels"]
    assert labels.items() <= deployment["template"]["metadata"]["labels"].items()


def pod_of(chart: Chart, **values: Any) -> Json:
    found: Json = chart.one("Deployment", **values)["spec"]["template"]["spec"]
    return found


def test_no_constraint_names_a_label_that_a_node_may_lack(chart: Chart) -> None:
    """Else the scheduler ignores all constraints of the pod on clusters whose nodes have no zones."""
    keys = [constraint["topologyKey"] for constraint in pod_of(chart)["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname"]


def test_an_affinity_of_one_s_own_keeps_the_preference_for_different_nodes(chart: Chart) -> None:
    own: Json = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}
    given = pod_of(chart, affinity=own)["affinity"]
    assert given["nodeAffinity"] == own["nodeAffinity"]
    (host, zone) = given["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert host["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert host["weight"] > zone["weight"]


def test_a_lost_node_keeps_the_controller_for_half_a_minute_unless_the_values_name_a_time(chart: Chart) -> None:
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    standard = {t["key"]: t["tolerationSeconds"] for t in pod_of(chart)["tolerations"]}
    assert standard == dict.fromkeys(taints, 30)
    own = [{"key": "pool"}, {"key": taints[1], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90}]
    given = pod_of(chart, tolerations=own)["tolerations"]
    assert given[:2] == own
    assert {t["key"]: t.get("tolerationSeconds") for t in given[2:]} == {taints[0]: 30}


def test_policies_about_jobs_are_made_where_they_are_asked_for_alone(chart: Chart) -> None:
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert not kinds & {o["kind"] for o in chart.render()}
    on: Json = {"admissionPolicies": {"enabled": True}}
    assert kinds <= {o["kind"] for o in chart.render(**on)}
    binding = chart.one("ValidatingAdmissionPolicyBinding", **on, **VALUES["namespaced"])
    (of_namespaces,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert of_namespaces["values"] == ["team-a", "team-b"]


def test_two_releases_share_nothing_but_the_definition(chart: Chart) -> None:
    kinds = CLUSTER_WIDE - {"CustomResourceDefinition"}
    one, other = (
        {(o["kind"], o["metadata"]["name"]) for o in chart.render(fullnameOverride=name) if o["kind"] in kinds}
        for name in ("one", "other")
    )
    assert one
    assert not one & other


def test_the_way_to_the_report_ports_of_jobs_is_open(chart: Chart) -> None:
    egress = chart.one("NetworkPolicy")["spec"]["egress"]
    assert contract.REPORT_PORT in [port["port"] for rule in egress for port in rule["ports"]]


def metrics_readers(chart: Chart, **values: Any) -> list[Json]:
    found: list[Json] = chart.one("NetworkPolicy", **values)["spec"]["ingress"][0]["from"]
    return found


def test_only_pods_of_the_release_s_namespace_read_metrics_unless_a_service_monitor_or_the_values_name_others(
    chart: Chart,
) -> None:
    own: Json = {"podSelector": {}}
    assert metrics_readers(chart) == [own]
    first, prometheus = metrics_readers(chart, metrics={"serviceMonitor": {"enabled": True}})
    assert (first, prometheus["namespaceSelector"]) == (own, {})
    (names,) = prometheus["podSelector"]["matchExpressions"]
    assert (names["key"], names["operator"]) == ("app.kubernetes.io/name", "In")
    assert "prometheus" in names["values"], "the label that the Prometheus operator gives its pods"
    everybody: list[Json] = [{"namespaceSelector": {}}]
    assert metrics_readers(chart, networkPolicy={"metricsFrom": everybody}) == everybody


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_a_controller_on_an_overloaded_node_has_three_minutes_to_answer(chart: Chart, probe: str) -> None:
    (container,) = pod_of(chart)["containers"]
    check = container[probe]
    assert check["httpGet"]["path"] == "/healthz"
    assert check["periodSeconds"] * check["failureThreshold"] >= 180


def test_dashboards_are_json_in_config_maps(chart: Chart) -> None:
    maps = [o for o in chart.render(**VALUES["everything"]) if o["kind"] == "ConfigMap"]
    titles = {json.loads(text)["title"] for made in maps for text in made["data"].values()}
    assert titles == {"TFDist / Jobs", "TFDist / Controller"}


def test_the_webhook_is_off_unless_asked_for(chart: Chart) -> None:
    assert not [o for o in chart.render() if o["kind"] in {"ValidatingWebhookConfiguration", "Secret"}]


def test_the_webhook_s_rights_name_exactly_the_two_objects_that_the_controller_keeps(chart: Chart) -> None:
    values = {"webhook": {"enabled": True}}
    name = f"tfdist-controller-webhook.{NAMESPACE}"
    configuration = chart.one("ValidatingWebhookConfiguration", name, **values)
    service = configuration["webhooks"][0]["clientConfig"]["service"]
    assert chart.one("Service", service["name"], **values)["spec"]["ports"][0]["port"] == 443
    secret = chart.one("Secret", service["name"], **values)["metadata"]["name"]
    assert chart.one("Role", secret, **values)["rules"] == permissions.webhook_rules(secret)
    assert chart.one("ClusterRole", name, **values)["rules"] == permissions.webhook_configuration_rules(name)
    (container,) = pod_of(chart, **values)["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    assert config.from_environment(given).webhook == secret


def test_the_webhook_is_asked_about_new_specifications_of_jobs_and_sweeps(chart: Chart) -> None:
    webhooks = chart.one("ValidatingWebhookConfiguration", webhook={"enabled": True})["webhooks"]
    names = {webhook["name"]: webhook["rules"][0] for webhook in webhooks}
    assert {name: (rule["apiVersions"], rule["resources"]) for name, rule in names.items()} == {
        "validate.tfdist.dev": (["v1"], ["tfdistjobs"]),
        "validate-sweep.tfdist.dev": (["v1alpha1"], ["tfdistsweeps"]),
    }
    first, second = ({k: v for k, v in webhook.items() if k not in {"name", "rules"}} for webhook in webhooks)
    assert first == second


def test_the_webhook_of_a_controller_of_named_namespaces_is_asked_about_these(chart: Chart) -> None:
    made = chart.one("ValidatingWebhookConfiguration", namespaces=["a", "b"], webhook={"enabled": True})
    for webhook in made["webhooks"]:
        (term,) = webhook["namespaceSelector"]["matchExpressions"]
        assert (term["operator"], term["values"]) == ("In", ["a", "b"])
