"""The command line: the commands and the functions that they run."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tfdist_cluster import console, control_plane, engine, load, status, tools, up, versions
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(State.from_environment(), options) or 0)
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        console.info("interrupted; run the same command again to continue")
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tfdist_cluster", description="A Kubernetes cluster for tests")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("up", help="make the cluster usable (idempotent)")
    command.add_argument("--nodes", type=_positive, default=versions.DEFAULT_NODES, help="default: %(default)s")
    command.set_defaults(run=lambda state, options: up.up(state, options.nodes))

    command = commands.add_parser("down", help="remove the cluster, and the engine where it was started here")
    command.add_argument("--purge", action="store_true", help="remove the state of this clone as well")
    command.set_defaults(run=lambda state, options: up.down(state, purge=options.purge))

    command = commands.add_parser("clean-cache", help="remove what this user's clones have built")
    command.set_defaults(run=lambda state, _: up.clean_cache(state))

    command = commands.add_parser("build", help="build parts of the node image")
    command.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(up.TARGETS))
    command.set_defaults(run=_build)

    command = commands.add_parser("load", help="load image archives (docker save) into the nodes")
    command.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    command.set_defaults(run=lambda _, options: load.load(options.archives))

    command = commands.add_parser("status", help="show what runs; status 0 if the cluster is usable")
    command.set_defaults(run=lambda state, _: status.show(state))

    command = commands.add_parser("control-plane", help="a control plane of plain processes, for integration tests")
    command.add_argument("action", choices=("up", "down", "status"))
    command.add_argument("--kwok-nodes", type=int, default=0, metavar="N", help="also run kwok with N large fake nodes")
    command.add_argument("--kubelet-less", action="store_true", default=True, help="no kubelet (the only mode so far)")
    command.set_defaults(run=_control_plane)

    command = commands.add_parser("engine", help="install and start a Docker engine if none responds")
    command.set_defaults(run=_engine)

    command = commands.add_parser("tools", help="build programs such as kubectl, kind, helm, kwok")
    command.add_argument("names", nargs="*", default=["kubectl", "kind"], metavar="NAME")
    command.set_defaults(run=_tools)

    command = commands.add_parser("bin", help="print the folder of programs")
    command.set_defaults(run=lambda state, _: print(state.bin))

    command = commands.add_parser("kubeconfig", help="print the path of the cluster's kubeconfig")
    command.set_defaults(run=lambda state, _: print(state.kubeconfig))
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _build(state: State, options: argparse.Namespace) -> None:
    unknown = set(options.targets) - set(up.TARGETS)
    if unknown:
        raise ClusterError(f"nothing to build is named {', '.join(sorted(unknown))}; there are {', '.join(up.TARGETS)}")
    image = up.build(state, tuple(options.targets) or up.TARGETS)
    if image:
        print(image)


def _engine(state: State, _: argparse.Namespace) -> None:
    engine.ensure(state)
    origin = "started by this tool" if engine.ours(state) else "the machine's own"
    console.info(f"a Docker engine answers ({origin})")


def _tools(state: State, options: argparse.Namespace) -> None:
    for name in options.names:
        print(tools.ensure(state, name), file=sys.stdout)


def _control_plane(state: State, options: argparse.Namespace) -> int:
    match options.action:
        case "up":
            print(control_plane.up(state, options.kwok_nodes))
        case "down":
            control_plane.down(state)
        case _:
            return status.show_control_plane(state)
    return 0
