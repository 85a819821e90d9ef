"""Additional ingress rules of a job's NetworkPolicy, bounded and typed.

Source: `NetworkPolicyIngressRule` of `networking.k8s.io/v1` and its parts. Values that the API server would reject in
the NetworkPolicy are rejected in the job.
"""

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from tfdist.api import patterns
from tfdist.api.base import ApiModel, CrossFieldRule
from tfdist.api.scalars import PortNumber, PortOrName, QualifiedName

Network = IPv4Network | IPv6Network
LabelValue = Annotated[str, StringConstraints(max_length=63, pattern=patterns.LABEL_VALUE)]


def _range(text: str) -> str:
    """Return a CIDR unchanged.

    Raises:
        PydanticCustomError: it is not a CIDR.
    """
    try:
        ip_network(text, strict=False)
    except ValueError:
        raise PydanticCustomError("cidr", "must be a CIDR, such as 10.0.0.0/8") from None
    return text


AddressRange = Annotated[str, StringConstraints(max_length=43, pattern=patterns.CIDR), AfterValidator(_range)]
"""A CIDR. The API server checks its form, this validator the numbers."""


class LabelSelectorRequirement(ApiModel):
    """A label selector requirement."""

    cross_field_rules = (
        CrossFieldRule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "operators In and NotIn require values, and Exists and DoesNotExist forbid them; correct one of the two",
            ".values",
            lambda self: (self.operator in {"In", "NotIn"}) == bool(self.values),
        ),
    )

    key: QualifiedName
    """Label key that the selector applies to."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """Relation of the label's value to `values`: `In`, `NotIn`, `Exists` or `DoesNotExist`."""
    values: Annotated[list[LabelValue] | None, Field(max_length=32)] = None
    """Values. Required for `In` and `NotIn`; must be empty for `Exists` and `DoesNotExist`."""


class LabelSelector(ApiModel):
    """A label selector; `{}` matches all objects."""

    match_labels: Annotated[dict[QualifiedName, LabelValue] | None, Field(max_length=32)] = None
    """Labels that an object must have."""
    match_expressions: Annotated[list[LabelSelectorRequirement] | None, Field(max_length=16)] = None
    """Requirements that an object must meet; all of them apply."""


class IPBlock(ApiModel):
    """A CIDR with exceptions."""

    cidr: AddressRange
    """CIDR, such as `10.0.0.0/8` or `2001:db8::/32`."""
    except_: Annotated[list[AddressRange] | None, Field(max_length=16, alias="except")] = None
    """CIDRs within `cidr` to exclude."""

    @field_validator("except_")
    @classmethod
    def _within(cls, ranges: list[str] | None, info: ValidationInfo) -> list[str] | None:
        """Reject an exception outside `cidr`, as the API server does for a NetworkPolicy."""
        for text in ranges or () if "cidr" in info.data else ():
            whole, part = (ip_network(given, strict=False) for given in (info.data["cidr"], text))
            if whole == part or not _contains(whole, part):
                where = {"part": text, "whole": info.data["cidr"]}
                raise PydanticCustomError("cidr", "{part} is not within {whole}; correct one of them", where)
        return ranges


def _contains(whole: Network, part: Network) -> bool:
    if isinstance(whole, IPv4Network):
        return isinstance(part, IPv4Network) and part.subnet_of(whole)
    return isinstance(part, IPv6Network) and part.subnet_of(whole)


class NetworkPolicyPeer(ApiModel):
    """A peer that may connect: pods selected by labels, or a CIDR."""

    cross_field_rules = (
        CrossFieldRule(
            "has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",
            "a peer has either ipBlock or selectors; set ipBlock alone, or podSelector, namespaceSelector or both",
            "",
            lambda self: (
                (self.ip_block is not None) != (self.pod_selector is not None or self.namespace_selector is not None)
            ),
        ),
    )

    pod_selector: LabelSelector | None = None
    """Selects pods in the namespaces of `namespaceSelector`, by default in the job's namespace."""
    namespace_selector: LabelSelector | None = None
    """Selects namespaces by label; `{}` selects all."""
    ip_block: IPBlock | None = None
    """CIDR of the peer. Cannot be combined with the selectors."""


class NetworkPolicyPort(ApiModel):
    """A port of the job's pods, or a range of ports."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.endPort) || (has(self.port) && type(self.port) == int && int(self.port) <= self.endPort)",
            "endPort requires a numeric port that is not larger; correct one of the two",
            ".endPort",
            lambda self: self.end_port is None or (isinstance(self.port, int) and self.port <= self.end_port),
        ),
    )

    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    """Protocol: `TCP`, `UDP` or `SCTP`."""
    port: PortOrName | None = None
    """Port number, or name of a container port. Defaults to all ports of the protocol."""
    end_port: PortNumber | None = None
    """Last port of a range that starts at `port`. Requires a numeric `port` that is not larger."""


class NetworkPolicyIngressRule(ApiModel):
    """An ingress rule, as in a NetworkPolicy: peers and the ports that they may connect to."""

    from_: Annotated[list[NetworkPolicyPeer] | None, Field(max_length=16, alias="from")] = None
    """Peers that may connect; a connection must match one of them. Defaults to all peers."""
    ports: Annotated[list[NetworkPolicyPort] | None, Field(max_length=16)] = None
    """Ports that may be connected to; a connection must match one of them. Defaults to all ports."""
