"""The schedulers that start all replicas of a gang or none, and whether their APIs are served."""

from enum import StrEnum


class GangSystem(StrEnum):
    """Gang scheduler of the pods of an attempt; the values of `scheduling.gang` except `Auto`."""

    NONE = "None"
    NATIVE = "Native"
    VOLCANO = "Volcano"
    COSCHEDULING = "Coscheduling"
    KAI = "KAI"
    KUEUE = "Kueue"
    """Of a job and not of its pods: it decides when they are created, and another one may schedule them."""

    @classmethod
    def _missing_(cls, value: object) -> "GangSystem":  # noqa: ARG003  any other value
        """Read the value that a newer version stored as `None`: its pods are scheduled already."""
        return cls.NONE


class Availability(StrEnum):
    """Whether an API server serves an API. An error of discovery does not mean that the API is absent."""

    SERVED = "Served"
    """It is served, and its objects are in the cache."""
    ABSENT = "Absent"
    """The API server has answered that it does not serve it."""
    UNKNOWN = "Unknown"
    """The API server has not answered yet, or its objects cannot be listed."""
