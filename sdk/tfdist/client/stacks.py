"""Python stacks of a replica, from its report port: of the training process if the launcher runs it."""

from typing import Final

from tfdist.client.api_server import ApiServer
from tfdist.client.errors import ClientError, NotPossible
from tfdist.client.port_forward import REJECTED, connected
from tfdist.client.replica_pods import ReplicaPod
from tfdist.contract import REPORT_PORT, STACKS_PATH
from tfdist.printable import printable
from tfdist.report_response import SEGMENT_BYTES, ReportResponse, ResponseError, report_request

_MAX_BYTES: Final = 4 << 20
_NOT_SERVED: Final = (
    f"serves no stacks on port {REPORT_PORT}: a program in an image of its own does not, nor does a script that is the "
    "only replica before its first report; there faulthandler.register(signal.SIGUSR1) in the program, and tfdist "
    "shell to send the signal, write them to the log"
)


def stacks(api: ApiServer, pod: ReplicaPod, seconds: float) -> str:
    """Return the stacks of a replica that runs.

    Args:
        api: the API server.
        pod: the replica's pod.
        seconds: how long to wait for each part of the answer.

    Raises:
        NotPossible: the replica serves none, or does not answer in time.
        ClientError: the API server rejects the connection, or does not answer.
    """
    if not pod.is_running:
        raise NotPossible(f"does not run: pod {pod.name} is {pod.state}")
    response = ReportResponse(_MAX_BYTES)
    with connected(api, pod, REPORT_PORT) as (connection, failures):
        connection.settimeout(seconds)
        try:
            connection.sendall(report_request("localhost", REPORT_PORT, STACKS_PATH))
            while response.body is None:
                response.feed(connection.recv(SEGMENT_BYTES))
        except TimeoutError:
            raise NotPossible(f"does not answer within {seconds:g} s: --wait sets the seconds") from None
        except (ResponseError, OSError) as error:
            failure: ClientError | Exception = error
        else:
            return printable(response.body.decode(errors="replace")).rstrip()
    if response.began:
        raise NotPossible(f"gives an answer that cannot be read: {failure}")
    raise NotPossible(failures[0] if failures and not failures[0].startswith(REJECTED) else _NOT_SERVED)
