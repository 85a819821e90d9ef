"""What the chart makes of its values: whole objects beside stored ones, and the rules that hold for all of them."""

import json
import pathlib

import pytest
import yaml
from support.api import Json
from support.chart import VALUES, Chart

from tfdist import contract
from tfdist_operator import config, permissions

GOLDEN = pathlib.Path(__file__).parent / "golden"
CONFIG_SOURCE = pathlib.Path(config.__file__).read_text()
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


def golden_text(objects: list[Json]) -> str:
    """Return the objects but for the definition and the dashboards, which are generated from other stored files."""
    told = [o for o in objects if o["kind"] not in {"CustomResourceDefinition", "ConfigMap"}]
    return yaml.safe_dump_all(told, sort_keys=True, width=110)


@pytest.mark.parametrize("name", VALUES)
def test_the_objects_are_the_stored_ones(chart: Chart, name: str, pytestconfig: pytest.Config) -> None:
    made, path = golden_text(chart.render(**VALUES[name])), GOLDEN / f"{name}.yaml"
    if pytestconfig.getoption("--update-golden", default=False):
        path.write_text(made)
    assert made == path.read_text(), "`pytest tests/helm --update-golden` stores what is made now; look at the diff"


def test_named_namespaces_get_roles_and_nothing_of_the_whole_cluster(chart: Chart) -> None:
    objects = chart.render(**VALUES["namespaced"])
    assert not [o for o in objects if o["kind"] in CLUSTER_WIDE]
    named = [o for o in objects if (o["kind"], o["metadata"]["name"]) == ("Role", "tfdist-controller")]
    roles = {role["metadata"]["namespace"]: role for role in named}
    assert roles.keys() == {"team-a", "team-b"}
    assert all(role["rules"] == permissions.job_rules() for role in roles.values())


def test_the_controller_s_cluster_role_is_the_list_of_its_calls(chart: Chart) -> None:
    assert chart.one("ClusterRole", "tfdist-controller")["rules"] == permissions.job_rules()


def test_users_see_jobs_by_the_role_view_and_write_them_by_edit_and_admin(chart: Chart) -> None:
    rights = {
        verb: {
            label.rpartition("-")[2]
            for role in chart.render()
            if role["kind"] == "ClusterRole" and any(verb in rule["verbs"] for rule in role["rules"])
            for label in role["metadata"]["labels"]
            if label.startswith("rbac.authorization.k8s.io/aggregate-to-")
        }
        for verb in ("list", "create")
    }
    assert rights == {"list": {"view", "edit", "admin"}, "create": {"edit", "admin"}}


@pytest.mark.parametrize("keep", [True, False])
def test_the_definition_stays_at_an_uninstallation_unless_told_otherwise(chart: Chart, *, keep: bool) -> None:
    definition = chart.one("CustomResourceDefinition", crds={"keep": keep})
    kept = (definition["metadata"].get("annotations") or {}).get("helm.sh/resource-policy") == "keep"
    assert kept is keep
    stored = yaml.safe_load((pathlib.Path(__file__).parents[2] / "crds/tfdistjobs.yaml").read_text())
    assert definition["spec"] == stored["spec"]


def test_the_variables_are_ones_that_the_controller_understands(chart: Chart) -> None:
    (container,) = chart.one("Deployment", **VALUES["everything"])["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable["value"] for variable in container["env"]}
    settings = config.from_environment(given)
    assert settings.workers == 32
    assert settings.log_level == "DEBUG"
    assert settings.pod_defaults == VALUES["everything"]["podDefaults"]
    assert settings.lease_name == "training"
    assert all(name in CONFIG_SOURCE for name in given), "a variable that nobody reads"


def test_the_lease_that_the_role_names_is_the_one_that_is_used(chart: Chart) -> None:
    role = chart.one("Role", "training-lease", **VALUES["everything"])
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["training"]]


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


def test_dashboards_are_json_in_config_maps(chart: Chart) -> None:
    maps = [o for o in chart.render(**VALUES["everything"]) if o["kind"] == "ConfigMap"]
    titles = {json.loads(text)["title"] for made in maps for text in made["data"].values()}
    assert titles == {"TFDist / Jobs", "TFDist / Controller"}
