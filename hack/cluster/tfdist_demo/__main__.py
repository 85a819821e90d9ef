"""`PYTHONPATH=hack/cluster python3 -m tfdist_demo`: a cluster, the images, the controller, a job, its accuracy."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tfdist_cluster import console, paths, up
from tfdist_cluster.errors import ClusterError
from tfdist_demo import children, data, example_data, follow, install, screen, target
from tfdist_images import build, builders, content, load, programs

WELCOME = "TFDist: two workers train a small network on Fashion-MNIST, on a real Kubernetes cluster."
NEEDS = "On two cores this run takes about {time}. It needs {gib} GiB of disk in {state} and {cache}."
NEXT = """
What to try next:
  export KUBECONFIG={kubeconfig}
  {kubectl} -n tfdist-demo get tfd,pods
  {kubectl} -n tfdist-demo describe tfd {job}
  edit examples/fashion_mnist.yaml (worker.replicas, model, epochs) and run `make demo` again
  another of examples/README.md, such as `make demo EXAMPLE=examples/penguins.yaml`"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return 0 only when the job has succeeded."""
    parser = argparse.ArgumentParser(prog="tfdist_demo", description=__doc__)
    parser.add_argument("--yes", action="store_true", help="agree to what is changed on the cluster of KUBECONFIG")
    parser.add_argument("--example", type=Path, default=follow.EXAMPLE, help="a manifest, or a folder to apply with -k")
    options = parser.parse_args(arguments)
    try:
        return _demo(options.example, yes=options.yes or os.environ.get("YES", "") not in {"", "0"})
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        console.info("\ninterrupted; run the same command again to continue")
        return 130


def _demo(path: Path, *, yes: bool) -> int:
    start = time.monotonic()
    console.info(WELCOME)
    cluster = target.choose()
    if cluster.own:
        state = paths.State.from_environment()
        gib, needed = up.needs(state)
        console.info(NEEDS.format(time=needed, gib=gib, state=state.root, cache=state.cache))
    target.ask(cluster, yes=yes)
    names = _cluster_and_images(cluster)
    kubectl = cluster.kubectl()
    install.install(kubectl, controller=names["controller"], trainer=names["trainer"])
    example = follow.read(kubectl, path)
    for dataset in (data,) if path == follow.EXAMPLE else (data, example_data):
        dataset.prepare_volume(
            kubectl, names["trainer"], storage_class=cluster.storage_class, access_mode=cluster.access_mode
        )
    follow.start(kubectl, example)
    job = follow.until_ended(kubectl, example)
    console.info(follow.final_table(kubectl, example))
    console.info(f"\n{screen.result(job)} ({screen.duration(time.monotonic() - start)} in all)")
    if job["status"]["phase"] != "Succeeded":
        console.info(follow.logs_of_failed(kubectl, example))
        return 1
    console.info(NEXT.format(kubeconfig=cluster.kubeconfig, kubectl=kubectl.program, job=example.job))
    return 0


def _cluster_and_images(cluster: target.Target) -> dict[str, str]:
    """Build images and fetch data while the cluster comes up, load the images, and return their names."""
    commands = {"images": children.module("tfdist_images", "build")}
    if cluster.own:
        _install_packages()
        commands = {"cluster": children.module("tfdist_cluster", "up"), **commands}
    data.fetch()
    children.run_together(commands)
    images = build.build(content.DEFAULT)
    load.load(images, {**os.environ, **cluster.environment})
    registry = os.environ.get("REGISTRY")
    return {image.recipe.name: content.image_name(image.recipe, image.digest, registry) for image in images}


def _install_packages() -> None:
    """Install what the images need before the cluster's own packages: apt takes one at a time."""
    if os.geteuid() == 0 and builders.choose().builder == "buildah":
        programs.need({"buildah": "buildah", "debootstrap": "debootstrap"})


if __name__ == "__main__":
    sys.exit(main())
