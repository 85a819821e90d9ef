"""The pure functions of the demonstration: what it shows, how it reports problems, and what it applies."""

import bz2
import csv
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tfdist_demo import data, example_data, follow, helm, manifests, screen, target, trouble, volume

RUNNING: dict[str, Any] = {
    "phase": "Running",
    "replicas": {"worker": {"desired": 2, "running": 2}},
    "progress": {
        "step": 394,
        "totalSteps": 938,
        "percent": 42,
        "etaSeconds": 75,
        "examplesPerSecond": 15812.4,
        "metrics": {"loss": 0.412, "accuracy": 0.851},
    },
}


def test_a_running_job_shows_its_progress() -> None:
    line = screen.progress_line({"status": RUNNING})
    assert line.split() == (
        [
            "Running",
            "[#####.......]",
            "42",
            "%",
            "394/938",
            "steps",
            "15,812",
            "ex/s",
            "ETA",
            "1:15",
            "accuracy",
            "0.851",
            "loss",
            "0.412",
        ]
    )
    assert len(line) <= screen.WIDTH


def test_values_that_do_not_fit_the_line_are_left_out_and_never_cut() -> None:
    metrics = {"accuracy": 0.851, "loss": 0.412, "top_5_accuracy": 0.987}
    line = screen.progress_line({"status": RUNNING | {"progress": RUNNING["progress"] | {"metrics": metrics}}})
    assert line.endswith("ETA 1:15  accuracy 0.851  loss 0.412")


def test_a_job_that_starts_shows_its_replicas() -> None:
    status = {"phase": "Starting", "replicas": {"worker": {"desired": 2, "running": 1}}}
    assert screen.progress_line({"status": status}).endswith("1/2 worker")
    assert screen.progress_line({}).startswith("Pending")


def test_success_is_shown_with_accuracy_and_examples() -> None:
    final = {"step": 938, "metrics": {"accuracy": 0.8912}, "examples": 10000}
    shown = screen.result({"status": {"phase": "Succeeded", "evaluation": {"final": final}}})
    assert shown == "Succeeded. Evaluation of step 938: accuracy 0.8912 over 10,000 examples"


def test_failure_is_shown_with_its_reasons() -> None:
    condition = {"type": "Failed", "reason": "UserError", "message": "worker 0 ended with 66"}
    failure = {"pod": "fashion-worker-0", "exitCode": 66, "reason": "UserError", "message": "no file matches"}
    shown = screen.result({"status": {"phase": "Failed", "conditions": [condition], "failures": [failure]}})
    assert "Failed: UserError: worker 0 ended with 66" in shown
    assert "fashion-worker-0 ended with 66: UserError: no file matches" in shown


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "status": status}


@pytest.mark.parametrize("reason", trouble.ADVICE)
def test_a_waiting_state_that_needs_a_change_by_the_user_is_a_problem(reason: str) -> None:
    given = pod(containerStatuses=[{"state": {"waiting": {"reason": reason, "message": "details"}}}])
    assert reason in str(trouble.of_pod(given))
    assert "details" in str(trouble.of_pod(given))


@pytest.mark.parametrize(
    "given",
    [
        pod(),
        {"metadata": {"name": "p"}},
        pod(containerStatuses=[{"state": {"waiting": {"reason": "ContainerCreating"}}}]),
        pod(containerStatuses=[{"state": {"running": {}}}]),
    ],
)
def test_other_pods_have_no_problem(given: dict[str, Any]) -> None:
    assert trouble.of_pod(given) is None


def test_an_unschedulable_pod_is_reported_with_the_message_of_the_scheduler() -> None:
    condition = {"type": "PodScheduled", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    assert "0/3 nodes are available" in str(trouble.unschedulable(pod(conditions=[condition])))
    assert trouble.unschedulable(pod()) is None


def test_the_loader_passes_the_restricted_standard() -> None:
    spec: Any = manifests.loader("tfdist/trainer:1", "team")["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    security = spec["containers"][0]["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_the_chart_gets_the_built_images_with_any_port_of_their_registry() -> None:
    assert helm.image_options({"image": "images.example.com:5000/tfdist/controller:a", "trainerImage": "t:b"}) == [
        "--set-string",
        "image.repository=images.example.com:5000/tfdist/controller,image.tag=a",
        "--set-string",
        "trainerImage.repository=t,trainerImage.tag=b",
    ]


def test_the_example_uses_what_the_demonstration_prepares() -> None:
    job = yaml.safe_load(follow.EXAMPLE.read_text())
    assert job["metadata"]["namespace"] == manifests.NAMESPACE
    claims = [volume["persistentVolumeClaim"]["claimName"] for volume in job["spec"]["volumes"]]
    assert claims == [manifests.CLAIM]
    assert data.CONVERTER[1] in job["spec"]["training"]["config"]["data"]["train"]


ONE: Final = {"kind": "ConfigMap", "metadata": {"name": "program", "namespace": manifests.NAMESPACE}}
JOB: Final = {"kind": "TFDistJob", "metadata": {"name": "fit", "namespace": manifests.NAMESPACE}}


@pytest.mark.parametrize(
    ("printed", "names"),
    [
        (json.dumps(JOB), ["fit"]),
        (f"{json.dumps(ONE, indent=4)}\n{json.dumps(JOB, indent=4)}\n", ["program", "fit"]),
        (json.dumps({"kind": "List", "items": [ONE, JOB]}), ["program", "fit"]),
        ("", []),
    ],
    ids=["one object", "a folder's objects, one after another", "a list", "nothing"],
)
def test_the_output_of_kubectl_is_read_for_any_number_of_objects(printed: str, names: list[str]) -> None:
    assert [thing["metadata"]["name"] for thing in follow.objects(printed)] == names


def test_every_change_to_a_user_s_cluster_is_listed_before_it_is_made() -> None:
    listed = target.changes("kind-dev", registry=None)
    for thing in ("kind-dev", "custom resource definition", "tfdist-system", "cluster role", "tfdist-demo", "images"):
        assert thing in listed


@pytest.mark.parametrize(
    ("environment", "own", "storage_class", "access_mode"),
    [
        ({}, True, "shared", "ReadWriteMany"),
        ({"KUBECONFIG": "/home/u/.kube/config"}, False, None, "ReadWriteOnce"),
        ({"KUBECONFIG": "/k", "STORAGE_CLASS": "nfs", "ACCESS_MODE": "ReadWriteMany"}, False, "nfs", "ReadWriteMany"),
    ],
)
def test_claims_request_the_volumes_that_the_cluster_provides(
    environment: dict[str, str], own: bool, storage_class: str | None, access_mode: str
) -> None:
    chosen = target.choose(environment)
    assert (chosen.own, chosen.storage_class, chosen.access_mode) == (own, storage_class, access_mode)


PENGUINS = "species,sex\n" + "".join(f"Adelie,{number}\n" for number in range(11))


def test_every_penguin_is_either_in_the_training_or_in_the_test_data() -> None:
    files = example_data.penguins(PENGUINS.encode())
    rows = {name: text.splitlines()[1:] for name, text in files.items()}
    assert rows["penguins/test.csv"] == ["Adelie,0", "Adelie,5", "Adelie,10"]
    assert sorted(itertools.chain(*rows.values())) == sorted(PENGUINS.splitlines()[1:])


def test_every_film_is_either_in_the_training_or_in_the_test_data_and_plots_are_left_out() -> None:
    kinds = ("fresh", "rotten", "plot")
    lines = [f'{kinds[n % 3]},"review {n}, of two\nlines",film {n % 20}' for n in range(240)]
    files = example_data.reviews(bz2.compress("\n".join(["category,text,movie_name", *lines]).encode()))
    rows = {name: list(csv.DictReader(io.StringIO(text))) for name, text in files.items()}
    assert set(rows) == {"reviews/test.csv", *(f"reviews/train-{n}.csv" for n in range(4))}
    films = {name: {int(row["text"].split()[1][:-1]) % 20 for row in found} for name, found in rows.items()}
    assert not films["reviews/test.csv"] & set().union(*(films[name] for name in films if "train" in name))
    assert sum(map(len, rows.values())) == 160
    assert {row["verdict"] for found in rows.values() for row in found} == {"fresh", "rotten"}


def test_the_mark_of_a_volume_changes_with_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    holds = volume.Contents("claim", "a", {"x/a": tmp_path / "a"}, "/volume", (("true",),))
    (tmp_path / "b").write_text("2")
    others = [
        replace(holds, files={"x/b": tmp_path / "a"}),
        replace(holds, files={"x/a": tmp_path / "b"}),
        replace(holds, commands=(("false",),)),
    ]
    assert len({holds.mark, *(other.mark for other in others)}) == 4
