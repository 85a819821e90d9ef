"""Lets the job of `cluster_model` come to its end: pods succeed, Kueue admits it, and timers expire."""

from datetime import timedelta

from support.cluster_model import Cluster
from support.simulated_kueue import ADMITS
from support.statuses import is_finished
from tfdist.desired.owned_kinds import POD_GROUPS


def resync(cluster: Cluster) -> bool:
    """Reconcile ten minutes later, and let pods start and end well; return whether that cost a request."""
    cluster.now += timedelta(minutes=10)
    before = cluster.requests.copy()
    cluster.sync()
    cluster.reconcile()
    for number in range(len(cluster.pods)):
        cluster.happen(number, 0)
    admit(cluster)
    return cluster.requests != before


def admit(cluster: Cluster) -> bool:
    """Have Kueue be there, and admit the job if it waits; return whether it did."""
    if cluster.kueue is None or is_finished(cluster.true.status):
        return False
    waited = not cluster.kueue.served or (cluster.kueue.workload is not None and not cluster.kueue.reserved)
    cluster.kueue.served = True
    cluster.kueue.happen(ADMITS)
    cluster.dirty = cluster.dirty or waited
    return waited


def finish(cluster: Cluster) -> None:
    """Let all pods start and succeed from now on; the controller reconciles after changes and timers."""
    cluster.served_systems, cluster.unknown = frozenset(POD_GROUPS), False
    cluster.edit(cluster.true.edition.edit, valid=True)
    cluster.user(suspend=False, workers=cluster.true.edition.workers or 1)
    for _ in range(400):
        if cluster.dirty:
            cluster.sync()
            cluster.reconcile()
        elif any(not p.ended or p.deleting for p in cluster.pods.values()) and not is_finished(cluster.true.status):
            for number in range(len(cluster.pods)):
                cluster.happen(number, 0)
        elif any(p.deleting for p in cluster.pods.values()):
            cluster.happen(0, 0)
        elif admit(cluster):
            continue
        elif cluster.timer is not None:
            cluster.now = max(cluster.timer, cluster.now)
            cluster.dirty = True
        else:
            return
    raise AssertionError(f"no rest after 400 reconciliations: {cluster.true.status}")
