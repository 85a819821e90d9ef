"""`TF_CONFIG`: the cluster specification that TensorFlow's `TFConfigClusterResolver` reads.

Source: tensorflow/python/distribute/cluster_resolver/tfconfig_cluster_resolver.py. The variable is absent for a
single replica, because TensorFlow fails on an empty one. It never lists a replica that does not take part, because
TensorFlow waits for every member of the cluster.
"""

import json
from collections.abc import Mapping, Sequence

from tfdist.contract import replica_name

ClusterSpec = Mapping[str, Sequence[str]]


def cluster_json(cluster: ClusterSpec) -> str:
    """Return `cluster` of `TF_CONFIG` as JSON: the part that all replicas share."""
    return json.dumps({r: list(members) for r, members in cluster.items()}, sort_keys=True, separators=(",", ":"))


def tf_config(cluster: ClusterSpec, role: str, index: int, shared: str = "") -> str | None:
    """Return the JSON of `TF_CONFIG` for one replica, or None if it must be absent.

    Args:
        cluster: `host:port` of every member in order of index, by TensorFlow's name of the role.
        role: role of the replica in `cluster`.
        index: index of the replica in its role, from 0.
        shared: `cluster_json` of the cluster, for a caller with many replicas; "" to compute it.

    Raises:
        ValueError: the replica is not a member of the cluster.
    """
    if not 0 <= index < len(cluster.get(role, ())):
        msg = f"replica {replica_name(role, index)} is not a member of the cluster {sorted(cluster)}"
        raise ValueError(msg)
    if sum(len(members) for members in cluster.values()) == 1:
        return None
    task = json.dumps({"type": role, "index": index}, sort_keys=True, separators=(",", ":"))
    return f'{{"cluster":{shared or cluster_json(cluster)},"task":{task}}}'
