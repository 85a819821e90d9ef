"""Group, version, kind and plural of the resource, without its models: what reads or names jobs starts sooner."""

from typing import Final

GROUP: Final = "tfdist.dev"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TFDistJob"
PLURAL: Final = "tfdistjobs"
MAX_NAME_LENGTH: Final = 45
"""Largest length of a job name: every pod name derived from it fits into a DNS label of 63 characters."""
