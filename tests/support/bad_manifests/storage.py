"""Checkpoints that the pods of a gang do not share, and patterns that are none: what only the merged pod shows."""

from typing import Any, Final

from support.bad_manifests.case import Bad, pod, rule

DIRECTORY: Final[dict[str, Any]] = {"checkpoint": {"directory": "/ckpt/{name}"}}
NOT_SHARED: Final = "which is not shared by the pods; set checkpoint.volume, for example to a persistentVolumeClaim"


def scratch(name: str, path: str) -> dict[str, Any]:
    return {"volumes": [{"name": name, "emptyDir": {}}], "volumeMounts": [{"name": name, "mountPath": path}]}


def pattern(name: str, text: str, reason: str) -> Bad:
    rules = [{"action": "FailJob", "onMessagePattern": text}]
    message = f"must be a regular expression (RE2 syntax): {reason}"
    return pod(name, ".failurePolicy.rules[0].onMessagePattern", message, failurePolicy={"rules": rules})


IN_STORE: Final[dict[str, Any]] = {"checkpoint": {"directory": "s3://bucket/{name}"}}
URL: Final = "must be an absolute path, s3://bucket/key or gs://bucket/key, without credentials"
CASES: Final[tuple[Bad, ...]] = (
    *(
        rule(f"checkpoints in {url}", ".checkpoint.directory", URL, checkpoint={"directory": url})
        for url in ("hdfs://cluster/a", "g://a/b", "s4://bucket/a", "https://server/a", "s3:///a", "gs://")
    ),
    rule("credentials in a store", ".checkpoint.directory", URL, checkpoint={"directory": "s3://AKIA1:key@bucket/a"}),
    pod(
        "credentials in a directory",
        ".tensorBoard.logDirectory",
        "must be a path or a URL without credentials; set them as variables from a Secret (env)",
        tensorBoard={"logDirectory": "gs://token@bucket/a"},
    ),
    pod(
        "event files in the object store of the checkpoints",
        ".tensorBoard.logDirectory",
        "checkpoints in an object store have no event files; set logDirectory, for example to a path on a volume",
        tensorBoard={},
        **IN_STORE,
    ),
    pod(
        "checkpoints in the container",
        ".checkpoint.directory",
        f"the directory is in the file system of the container, {NOT_SHARED}",
        **DIRECTORY,
    ),
    pod(
        "checkpoints on a scratch volume",
        ".checkpoint.directory",
        f"the directory is on volume c, an emptyDir, {NOT_SHARED}",
        **DIRECTORY,
        **scratch("c", "/ckpt"),
    ),
    pod(
        "checkpoints in a scratch folder below a shared one",
        ".checkpoint.directory",
        f"the directory is on volume c, an emptyDir, {NOT_SHARED}",
        volumes=[{"name": "s", "hostPath": {"path": "/srv"}}, {"name": "c", "emptyDir": {}}],
        volumeMounts=[{"name": "s", "mountPath": "/"}, {"name": "c", "mountPath": "/ckpt"}],
        **DIRECTORY,
    ),
    pod(
        "checkpoints on a scratch volume of their own",
        ".checkpoint.directory",
        f"the directory is on volume tfdist-checkpoint, an emptyDir, {NOT_SHARED}",
        checkpoint={"directory": "/ckpt", "volume": {"emptyDir": {}}},
    ),
    pod(
        "checkpoints that the chief alone sees",
        ".checkpoint.directory",
        f"the directory is in the file system of the container, {NOT_SHARED}",
        chief={
            "volumes": [{"name": "c", "hostPath": {"path": "/srv"}}],
            "volumeMounts": [{"name": "c", "mountPath": "/ckpt"}],
        },
        **DIRECTORY,
    ),
    pattern("a pattern with an open bracket", "OOM (", "unclosed group"),
    pattern("a pattern with a look-ahead", "(?=OOM)", "look-around"),
    pattern("a pattern of a shell", "*.oom", "repetition operator missing expression"),
)
