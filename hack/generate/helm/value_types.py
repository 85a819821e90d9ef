"""The types of the chart's values."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from tfdist.api import patterns

NamespaceName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Port = Annotated[int, Field(ge=1, le=65535)]
Amount = Annotated[str, Field(pattern=patterns.QUANTITY)] | Annotated[float, Field(ge=0)]
"""A Kubernetes resource quantity, such as `50m`, `512Mi`, `2` or `0.5`."""


def Kubernetes(name: str) -> WithJsonSchema:  # noqa: N802  used as a type
    """Return the annotation of a value whose type Kubernetes defines; `generate.py` adds these types to the schema."""
    return WithJsonSchema({"kubernetes": name})


class Values(BaseModel):
    """Base class of each level of the values."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=True)
