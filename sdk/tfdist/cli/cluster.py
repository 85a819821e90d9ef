"""The client of a command, by its options."""

from typing import TYPE_CHECKING

from tfdist.cli.errors import CommandError

if TYPE_CHECKING:
    from tfdist.client.client import Client


def connect(namespace: str | None, context: str | None, kubeconfig: str | None) -> "Client":
    """Return the client for the options of a command; no request is sent.

    Raises:
        CommandError: the client is not installed.
        ClientError: there is no kubeconfig, or no such context in it.
    """
    try:
        from tfdist.client.client import Client  # noqa: PLC0415  half a second, which commands without a cluster save
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in {"kubernetes", "pathspec", "urllib3", "yaml"}:
            raise
        raise CommandError("this command needs the client: pip install 'tfdist[cli,client]'") from None
    return Client(namespace=namespace, context=context, kubeconfig=kubeconfig)
