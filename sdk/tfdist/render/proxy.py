"""`no_grpc_proxy`: the members of a gang connect to each other directly if the environment names an HTTP proxy.

TensorFlow's gRPC sends connections to the members through `grpc_proxy`, `https_proxy` or `http_proxy`, whose proxy
cannot reach them: the gang would wait without a message. `no_grpc_proxy` takes the place of `no_proxy` for gRPC
only. It is set whether or not a proxy is known here, because the variable may come from the image or from `envFrom`;
`no_proxy` is not set, because the one of an image, which is unknown here, would be lost for all other connections.
"""

from collections.abc import Mapping
from typing import Any, Final

NO_GRPC_PROXY_ENV: Final = "no_grpc_proxy"
_NO_PROXY_ENV: Final = "no_proxy"


def no_grpc_proxy(container: Mapping[str, Any], domain: str) -> str | None:
    """Return the value for a container whose peers have names below `domain`, in addition to its own exclusions.

    A reference to a variable of `envFrom` stays as text if that variable is missing, and then matches no host. None if
    the container takes the whole value from another object.
    """
    variables = {variable["name"]: variable for variable in container.get("env", ())}
    # gRPC ignores no_proxy if no_grpc_proxy is set, so the exclusions of both are joined.
    if NO_GRPC_PROXY_ENV in variables:
        if "valueFrom" in variables[NO_GRPC_PROXY_ENV]:
            return None
        excluded = variables[NO_GRPC_PROXY_ENV].get("value", "")
    elif _NO_PROXY_ENV in variables and variables[_NO_PROXY_ENV].get("value") == "":
        excluded = ""  # set to exclude nothing; an empty entry would match every host in old versions of gRPC
    elif _NO_PROXY_ENV in variables or container.get("envFrom"):
        excluded = f"$({_NO_PROXY_ENV})"  # gRPC reads the lower case only
    else:
        excluded = ""
    return ",".join(filter(None, (excluded, f".{domain}", "localhost", "127.0.0.1")))
