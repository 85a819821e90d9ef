"""What holds for all jobs of an installation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Installation:
    """What the people who run the controller have decided.

    `default_image` is used where a job names none; `cluster_domain` is put behind addresses where pods do not
    search for it themselves; `namespace` is the controller's own.
    """

    default_image: str
    cluster_domain: str = ""
    namespace: str = "tfdist-system"
