"""The command: `PYTHONPATH=hack/cluster python3 -m tfdist_images build|load|push|list|release|names`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from tfdist_cluster.errors import ClusterError
from tfdist_images import build, content, load

ENVIRONMENT = """
environment:
  REGISTRY       push here instead of loading into the nodes, e.g. registry.example.com/team
  BASE_IMAGE     the base to build upon (default: python:3.11-slim-bookworm, or one made by debootstrap)
  IMAGE_BUILDER  docker or buildah (default: docker if its engine has the base or can pull it)
  KUBECONFIG     the cluster to load into (default: the project's own)
  TFDIST_STATE   where logs and what runs are kept (default: .state in the repository)
  TFDIST_CACHE   where builds are kept, for all clones (default: ~/.cache/tfdist)
"""
COMMANDS = {
    "build": "build what changed",
    "load": "build what changed and bring it into the cluster in use",
    "push": "build what changed and push it to REGISTRY",
    "list": "print the images, whether they are built, and their sizes",
    "release": "unmount what a killed build left mounted; images and caches stay",
    "names": "print the images' names as JSON; builds nothing",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parser().parse_args(arguments)
    recipes = [content.RECIPES[name] for name in options.image or [recipe.name for recipe in content.DEFAULT]]
    try:
        return _run(options.command, recipes)
    except (ClusterError, content.MissingInputError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; run again to go on", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tfdist_images",
        description="Builds the project's container images and brings them into a cluster.",
        epilog=ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command", choices=COMMANDS, help="; ".join(f"{name}: {description}" for name, description in COMMANDS.items())
    )
    parser.add_argument("--image", action="append", choices=content.RECIPES, help="only this one; may be repeated")
    return parser


def _run(command: str, recipes: Sequence[content.Recipe]) -> int:
    registry = os.environ.get("REGISTRY")
    if command == "names":
        names = {
            image.recipe.name: content.image_name(image.recipe, image.digest, registry)
            for image in build.images_now(recipes)
        }
        print(json.dumps(names))
    elif command == "list":
        for image in build.images_now(recipes):
            exists = image.archive.exists()
            print(f"{image.name:40} {_megabytes(image.archive.stat().st_size) if exists else 'not built'}")
    elif command == "release":
        build.release()
    elif command == "push" and not registry:
        raise ClusterError("set REGISTRY to where to push, such as REGISTRY=registry.example.com/team")
    else:
        images = build.build(recipes)
        if command != "build":
            load.load(images)
    return 0


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
