"""What every model of the contract (`tfdist.contract`) is made of."""

import math
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


class ContractModel(BaseModel):
    """Camel-case JSON, immutable, tolerant of fields from a newer version."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> str:
        """Return compact JSON with sorted keys and without absent fields, byte-equal for equal models."""
        import json  # noqa: PLC0415  a light module must stay light: most importers only want the constants

        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


Metrics = Annotated[dict[str, float], AfterValidator(_finite), PlainSerializer(_finite)]
"""Values by name. One that is not a finite number is left out: JSON has no word for it, and no status can hold it."""
