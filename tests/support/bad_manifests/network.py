"""Errors in the rules that a job adds to its NetworkPolicy."""

from typing import Any, Final

from support.bad_manifests.case import AT_LEAST, AT_MOST, ENUM, MANY, PATTERN, Bad, field, pod, rule

PEER: Final = "networkPolicyIngress[0].from[0]"
PORT: Final = "networkPolicyIngress[0].ports[0]"


def ingress(name: str, path: str, message: str, **spec: Any) -> Bad:
    return rule(name, f".networkPolicyIngress[0]{path}", message, networkPolicyIngress=[spec])


CASES: Final[tuple[Bad, ...]] = (
    rule(
        "more connections for a job without a policy",
        ".networkPolicyIngress",
        "networkPolicyIngress requires networkPolicy Enabled; change networkPolicy, or remove networkPolicyIngress",
        networkPolicy="Disabled",
        networkPolicyIngress=[{"ports": [{"port": 9000}]}],
    ),
    ingress(
        "a peer of nothing",
        ".from[0]",
        "a peer has either ipBlock or selectors; set ipBlock alone, or podSelector, namespaceSelector or both",
        **{"from": [{}]},
    ),
    ingress(
        "a peer of addresses and pods",
        ".from[0]",
        "a peer has either ipBlock or selectors; set ipBlock alone, or podSelector, namespaceSelector or both",
        **{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]},
    ),
    ingress(
        "an operator without values",
        ".from[0].podSelector.matchExpressions[0].values",
        "operators In and NotIn require values, and Exists and DoesNotExist forbid them; correct one of the two",
        **{"from": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}]},
    ),
    ingress(
        "an operator with values that it does not take",
        ".from[0].namespaceSelector.matchExpressions[0].values",
        "operators In and NotIn require values, and Exists and DoesNotExist forbid them; correct one of the two",
        **{
            "from": [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}]
        },
    ),
    ingress(
        "a range that ends before it begins",
        ".ports[0].endPort",
        "endPort requires a numeric port that is not larger; correct one of the two",
        ports=[{"port": 9001, "endPort": 9000}],
    ),
    ingress(
        "a range that begins with a name",
        ".ports[0].endPort",
        "endPort requires a numeric port that is not larger; correct one of the two",
        ports=[{"port": "metrics", "endPort": 9000}],
    ),
    field("too many rules", "networkPolicyIngress", [{}] * 17, "Too many: 17: must have at most 16 items", MANY),
    field(
        "addresses without a length", f"{PEER}.ipBlock.cidr", "10.0.0.0", "must be a CIDR, such as 10.0.0.0/8", PATTERN
    ),
    field("addresses of no network", f"{PEER}.ipBlock.cidr", "10.0.0.0/64", "must be a CIDR, such as 10.0.0.0/8"),
    pod(
        "addresses that are left out of others",
        f".{PEER}.ipBlock.except",
        "192.168.0.0/16 is not within 10.0.0.0/8; correct one of them",
        networkPolicyIngress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["192.168.0.0/16"]}}]}],
    ),
    field(
        "a selector's label with a space",
        f"{PEER}.podSelector.matchLabels.app",
        "b c",
        "must be a label value: letters, digits, '-', '_' and '.', with a letter or digit first and last",
        PATTERN,
    ),
    pod(
        "a selector's label without a name",
        f".{PEER}.namespaceSelector.matchLabels['example.com/']",
        "the key must be a qualified name",
        networkPolicyIngress=[{"from": [{"namespaceSelector": {"matchLabels": {"example.com/": "x"}}}]}],
    ),
    field("a protocol in small letters", f"{PORT}.protocol", "tcp", "did you mean TCP?", ENUM),
    field("port 0", f"{PORT}.port", 0, "must be a port number from 1 to 65535", AT_LEAST),
    field(
        "a port beyond all ports",
        f"{PORT}.port",
        65536,
        "must be a port number from 1 to 65535, or the name of a container port",
        AT_MOST,
    ),
    field(
        "a port with a bad name",
        f"{PORT}.port",
        "Metrics",
        "must be a port number from 1 to 65535, or the name of a container port",
        PATTERN,
    ),
)
