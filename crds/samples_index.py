"""The list of the samples, from the first line of each one's comment."""

import pathlib

SAMPLES = pathlib.Path(__file__).resolve().parent / "samples"
INTRODUCTION = """# Samples

One job for each strategy and feature, as short as it can be; the first lines of each file say what to look at.
`make generate` writes this list.

```sh
tfdist validate crds/samples/*.yaml           # offline
tfdist render crds/samples/multi-worker.yaml  # every object that the controller makes of it
kubectl apply -f crds/samples/multi-worker.yaml
```

Images, claims, queues and secrets are examples: put your own.
[The reference](../../docs/reference/api.md) has every field.

| | |
|---|---|
"""


def index() -> str:
    """Return the content of `samples/README.md`."""
    rows = [f"| [{path.stem}]({path.name}) | {purpose(path)} |" for path in sorted(SAMPLES.glob("*.yaml"))]
    return INTRODUCTION + "\n".join(rows) + "\n"


def purpose(path: pathlib.Path) -> str:
    """Return what a sample shows: the first line of its comment."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
