"""Errors of the client: each names the failure and its remedy in one line."""


class ClientError(Exception):
    """A request failed. Its message is for the user."""


class NoCluster(ClientError):  # noqa: N818  the other names are the API server's, without a suffix
    """No cluster can be reached: the kubeconfig or the context does not exist, or the connection fails."""


class NotConnected(NoCluster):
    """No connection to the API server could be made, so the request was not sent."""


class Unauthorized(ClientError):  # noqa: N818
    """401: the cluster rejects the credentials, for example because a login has expired."""


class Forbidden(ClientError):  # noqa: N818
    """403: the user lacks a right, or a quota or policy rejects the request."""


class NotInstalled(ClientError):  # noqa: N818
    """404: the cluster has no TFDistJobs, or no TFDistSweeps."""


class NotFound(ClientError):  # noqa: N818
    """404: the job, sweep or pod does not exist."""


class AlreadyExists(ClientError):  # noqa: N818
    """409: an object of this name exists."""


class Conflict(ClientError):  # noqa: N818
    """409: the object has changed since it was read."""


class Invalid(ClientError):  # noqa: N818
    """400 or 422: the API server, an admission policy or the controller's webhook rejects the object."""


class NotPossible(ClientError):  # noqa: N818
    """The job is in a phase in which the request would have no effect, such as a job that has finished."""


class Unavailable(ClientError):  # noqa: N818
    """429 or 5xx: the API server cannot answer now. The same request may succeed later."""


class WaitTimeout(ClientError, TimeoutError):  # noqa: N818
    """The job or sweep did not get there in time."""


class JobFailed(ClientError):  # noqa: N818
    """The job has failed, or is invalid. The message comes from its condition."""


class SweepFailed(ClientError):  # noqa: N818
    """The sweep has failed, or is invalid. The message comes from its condition."""


class CodeError(ClientError):
    """A folder of code cannot be packed, as a file cannot be read or it is too large, or it cannot be uploaded."""


class RequirementsError(ClientError):
    """The packages of a job cannot be locked: pip finds no wheels, or they conflict with the image's packages."""


class FunctionError(ClientError):
    """A function, or one of its arguments, cannot become a job."""
