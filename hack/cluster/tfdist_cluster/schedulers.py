"""Gang and queue schedulers of other projects, built for tests on demand, each from a module `hack/cluster/go-<name>`.

Their CRDs, webhooks and configurations are read from the sources in Go's module cache, so they are of the same version.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tfdist_cluster import gobuild
from tfdist_cluster.gobuild import Program
from tfdist_cluster.paths import CLUSTER, State
from tfdist_cluster.source_edits import Edit


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A Go module and its executables."""

    name: str
    module: str
    programs: tuple[Program, ...]
    edits: tuple[Edit, ...] = ()

    @property
    def requiring(self) -> Path:
        """The folder of the module that pins it."""
        return CLUSTER / f"go-{self.name}"

    def source(self) -> Path:
        """Return the folder of its sources, downloaded and verified."""
        return gobuild.module_folder(self.module, self.requiring)


VISIBILITY_PORT: Final = "KUEUE_VISIBILITY_PORT"
CERTIFICATES: Final = "certificates"
"""Folder of Kueue's `tls.crt` and `tls.key`, in its working directory."""

_VISIBILITY: Final = f"""o.SecureServing.BindAddress = net.ParseIP("127.0.0.1")
\tif _, err := fmt.Sscan(os.Getenv("{VISIBILITY_PORT}"), &o.SecureServing.BindPort); err != nil {{
\t\treturn fmt.Errorf("{VISIBILITY_PORT}: %w", err)
\t}}
\to.Authentication.RemoteKubeConfigFile = os.Getenv("KUBECONFIG")
\to.Authorization.RemoteKubeConfigFile = os.Getenv("KUBECONFIG")
\to.CoreAPI.CoreAPIKubeconfigPath = os.Getenv("KUBECONFIG")
"""

KUEUE: Final = Scheduler(
    "kueue",
    "sigs.k8s.io/kueue",
    (Program("kueue", "sigs.k8s.io/kueue/cmd/kueue", 300),),
    (  # its folders of certificates, the port of its aggregated API, and that this API runs in a pod
        Edit("cmd/kueue/main.go", '"/etc/kueue/metrics/certs"', f'"{CERTIFICATES}"'),
        Edit("pkg/visibility/server.go", 'certDir = "/visibility"', f'certDir = "{CERTIFICATES}"'),
        Edit("pkg/visibility/server.go", "o.SecureServing.BindPort = 8082\n", _VISIBILITY),
        Edit("pkg/visibility/server.go", '\t"net"\n', '\t"net"\n\t"os"\n'),
    ),
)
VOLCANO: Final = Scheduler(
    "volcano",
    "volcano.sh/volcano",
    (
        Program("vc-scheduler", "volcano.sh/volcano/cmd/scheduler", 150),
        Program("vc-controller-manager", "volcano.sh/volcano/cmd/controller-manager", 30),
    ),
)
SCHEDULER_PLUGINS: Final = Scheduler(
    "scheduler-plugins",
    "sigs.k8s.io/scheduler-plugins",
    (Program("coscheduling", "./cmd/coscheduling", 200),),
)

PROGRAMS: Final = {
    program.name: (scheduler, program)
    for scheduler in (KUEUE, VOLCANO, SCHEDULER_PLUGINS)
    for program in scheduler.programs
}


def ensure(state: State, name: str) -> Path:
    """Build an executable if it is not current, and return its path."""
    scheduler, program = PROGRAMS[name]
    return gobuild.edited(state, program, scheduler.requiring, scheduler.module, scheduler.edits)
