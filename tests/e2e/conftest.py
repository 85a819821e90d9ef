"""A cluster that runs pods, with the controller installed and Fashion-MNIST in a volume.

It is the user's if KUBECONFIG names one, else the kind cluster that `make cluster-up` makes. `make test-e2e` builds
the images first.
"""

import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.e2e import Cluster, prepared

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    command = [sys.executable, "-m", "tfdist_images"]
    folder = ROOT / "hack" / "cluster"
    subprocess.run([*command, "load"], cwd=folder, check=True)  # a test may have created the cluster again
    printed = subprocess.run([*command, "names"], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, str] = json.loads(printed)
    return found


@pytest.fixture(scope="session")
def cluster(images: dict[str, str]) -> Iterator[Cluster]:
    with prepared(images) as ready:
        yield ready
