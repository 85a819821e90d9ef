"""The schedulers that start all replicas of a gang or none."""

from enum import StrEnum


class GangSystem(StrEnum):
    """Gang scheduler of the pods of an attempt; the values are those of `scheduling.gang`, without `Auto`."""

    NONE = "None"
    NATIVE = "Native"
    VOLCANO = "Volcano"
    COSCHEDULING = "Coscheduling"
    KUEUE = "Kueue"
    """Of a job and not of its pods: it decides when they are created, and another one may schedule them."""

    @classmethod
    def _missing_(cls, value: object) -> "GangSystem":  # noqa: ARG003  any other value
        """Read the value that a newer version stored as `None`: its pods are scheduled already."""
        return cls.NONE
