"""`status`: the state as a table; the exit status is 0 if the cluster is usable."""

from collections.abc import Iterable

from tfdist_cluster import control_plane, engine, kind, shell
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State, cluster_name

Row = tuple[str, str, str]  # part, name, state


def show(state: State) -> int:
    """Print engine, nodes and servers of the kind cluster; return 0 if it is usable."""
    answering = engine.answers()
    rows: list[Row] = [("engine", _engine(state, answering=answering), "answers" if answering else "does not answer")]
    usable = False
    if answering:
        name = cluster_name()
        nodes = kind.nodes(name)
        rows.append(("cluster", name, f"{len(nodes)} nodes" if nodes else "does not exist"))
        cluster_rows, usable = _cluster(state, nodes)
        rows += cluster_rows
    _table(rows)
    print(f"kubeconfig: {state.kubeconfig}" if usable else "not usable; `up` makes it so")
    return 0 if usable else 1


def _engine(state: State, *, answering: bool) -> str:
    identity = engine.ours(state)
    if identity is not None:
        return f"dockerd started here (process {identity.pid})"
    return "the machine's own" if answering else "none"


def _cluster(state: State, nodes: list[kind.Node]) -> tuple[list[Row], bool]:
    """Return the rows of nodes and servers, and whether all of them are ready."""
    conditions = _query(
        state, "get", "nodes", "--output", r'jsonpath={range .items[*]}{.metadata.name}{"\t"}'
        r'{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}',
    )  # fmt: skip
    rows: list[Row] = []
    for node in nodes:
        ready = "Ready" if conditions.get(node.name) == "True" else "not Ready"
        rows.append(("node", node.name, f"{node.state}, {ready}"))
    counts = _query(
        state, "--namespace=kube-system", "get", "deployments,daemonsets", "--output",
        r'jsonpath={range .items[*]}{.metadata.name}{"\t"}{.status.readyReplicas}{.status.numberReady}/'
        r'{.status.replicas}{.status.desiredNumberScheduled}{"\n"}{end}',
    )  # fmt: skip
    rows += [("server", name, f"{count} ready") for name, count in counts.items()]
    healthy = all(state_.endswith("running, Ready") for part, _, state_ in rows if part == "node")
    complete = bool(counts) and all(len(set(count.split("/"))) == 1 for count in counts.values())
    return rows, bool(nodes) and healthy and complete


def _query(state: State, *arguments: str) -> dict[str, str]:
    """Return name and value of each line that kubectl prints; empty if kubectl fails."""
    command = [state.bin / "kubectl", "--kubeconfig", state.kubeconfig, "--request-timeout=5s", *arguments]
    try:
        output = shell.run(command, timeout_seconds=15)
    except ClusterError:
        return {}
    return dict(line.split("\t", 1) for line in output.splitlines() if "\t" in line)


def show_control_plane(state: State) -> int:
    """Print the processes of the plain control plane; return 0 if it is ready."""
    processes = control_plane.running(state)
    _table(
        ("process", name, f"runs (process {identity.pid})" if identity else "does not run")
        for name, identity in processes.items()
    )
    ready = control_plane.ready(state)
    print(f"kubeconfig: {control_plane.kubeconfig(state)}" if ready else "not ready; `control-plane up` makes it so")
    return 0 if ready else 1


def _table(rows: Iterable[Row]) -> None:
    table = list(rows)
    widths = [max(len(row[column]) for row in table) for column in range(2)]
    for part, name, state in table:
        print(f"{part:<{widths[0]}}  {name:<{widths[1]}}  {state}")
