"""The cluster, namespace and kind of object that a command works on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfdist.cli.kinds import JOB, Kind, Reference

if TYPE_CHECKING:
    from tfdist.client.client import Client


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options `--namespace`, `--context` and `--kubeconfig`, None for the defaults of kubectl."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    kind: Kind = JOB
    """Kind of a name without one: job, or in the group `tfdist sweep` sweep."""

    def client(self) -> "Client":
        """Return the client; no request is sent.

        Raises:
            ClientError: there is no kubeconfig, or it has no such context.
            ModuleNotFoundError: the client is not installed.
        """
        from tfdist.client.client import Client  # noqa: PLC0415  half a second, which commands without a cluster save

        return Client(namespace=self.namespace, context=self.context, kubeconfig=self.kubeconfig)

    def find(self, text: str) -> Reference:
        """Return the kind and the name of `NAME` or `KIND/NAME`.

        Raises:
            CommandError: the kind is neither a job nor a sweep.
        """
        return Reference.parse(text, self.kind)
