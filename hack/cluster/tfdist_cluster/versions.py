"""Every version and name that decides what is built; each is an input of the content hashes.

The Go versions themselves are in `hack/cluster/go/go.mod`; what is repeated here is what image tags and kubeadm need.
"""

from typing import Final

KUBERNETES: Final = "v1.37.1"
OLDER: Final = ("v1.29.15",)  # additional control planes for tests, each from a module cluster/go-<version>
ETCD_TAG: Final = "3.7.0-0"  # kubeadm's DefaultEtcdVersion of this Kubernetes
COREDNS_TAG: Final = "v1.14.6"  # kubeadm's CoreDNSVersion
PAUSE_TAG: Final = "3.10"  # sandbox_image in the containerd configuration of kind's base image
RELEASED_NODE_IMAGE: Final = f"kindest/node:{KUBERNETES}"

# Programs that tests and demos use and that do not compile with the packages of `go`; built by `tools NAME`.
EXTRA_TOOLS: Final = {
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7",
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
    "training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1@v1.9.4",
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
}

DEBIAN_SUITE: Final = "bookworm"
NODE_PACKAGES: Final = (
    "systemd", "dbus", "bash", "procps", "util-linux", "mount", "kmod", "jq", "curl", "ca-certificates",  # kind
    "containerd", "runc", "containernetworking-plugins",  # the container runtime
    "conntrack", "iptables", "nftables", "iproute2", "ethtool", "socat", "e2fsprogs",  # kubelet, kube-proxy
    "ipset",  # the enforcement of NetworkPolicy
    "busybox",  # an image for tests
)  # fmt: skip

CLUSTER_NAME: Final = "tfdist"
DEFAULT_NODES: Final = 3
SHARED_MOUNT: Final = "/var/lib/tfdist-shared"  # where every node sees the shared folder
SERVICE_RANGE: Final = "10.96.0.0/16"
MINIMUM_GO: Final = (1, 26)
MINIMUM_FREE_GIB: Final = 12  # Go's caches 5, node image and its layers 3, nodes 2, room
CACHED_FREE_GIB: Final = 6  # the node image in an engine, nodes, room
