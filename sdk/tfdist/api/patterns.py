"""Regular expressions of strings for the schema, each with its description for messages."""

from typing import Final

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"

JOB_NAME: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_LABEL: Final = rf"^{_LABEL}$"
DNS_NAME: Final = rf"^{_DOMAIN}$"
QUALIFIED_NAME: Final = rf"^({_DOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
MANAGER: Final = rf"^{_DOMAIN}/\S+$"
QUANTITY: Final = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$"
"""Kubernetes' grammar of a quantity, without negative ones and exponents of more than two digits."""
LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
PORT_NAME: Final = r"^([a-z0-9]+-)*[a-z0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$"
"""A name of at most 15 characters with at least one letter; see `IsValidPortName` of Kubernetes."""
CIDR: Final = r"^[0-9a-fA-F.:]+/[0-9]{1,3}$"
"""The form of a CIDR; the numbers are validated apart."""
VARIABLE: Final = "^[^=]+$"
MOUNT_PATH: Final = "^[^:]+$"
DIRECTORY: Final = r"^(/|[a-z][a-z0-9+.-]*://)([^{}]|\{name\}|\{namespace\}|\{uid\})*$"
FOLDER: Final = "^[^/].*$"
REPOSITORY: Final = r"^(https?|ssh|git|file)://\S+$|^\S+@\S+:\S+$"
OBJECT_URL: Final = r"^(s3|gs)://[^/@\s]+/[^/\s]\S*$"
SHA256: Final = "^[0-9a-f]{64}$"
REVISION: Final = r"^[^-\s]\S*$"
SCRIPT: Final = r"^(/?[^/].*\.py|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*)$"
INTERFACE: Final = r"^[^\s/:,=^]+$"
PROGRAM: Final = r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$"
PARAMETER: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"
FIELD: Final = r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$"

PATTERN_DESCRIPTIONS: Final = {
    JOB_NAME: "a DNS label that begins with a letter: lower case letters, digits and '-'",
    DNS_LABEL: "a DNS label: lower case letters, digits and '-', with a letter or digit first and last",
    DNS_NAME: "a DNS subdomain: lower case letters, digits, '-' and '.', with a letter or digit first and last",
    QUALIFIED_NAME: "a qualified name, such as cpu or nvidia.com/gpu",
    LABEL_VALUE: "a label value: letters, digits, '-', '_' and '.', with a letter or digit first and last",
    CIDR: "a CIDR, such as 10.0.0.0/8",
    MANAGER: "a domain-prefixed name, such as tfdist.dev/controller",
    VARIABLE: "a name without '='",
    MOUNT_PATH: "a path without ':'",
    DIRECTORY: "an absolute path or a URL, with no other placeholders than {name}, {namespace} and {uid}",
    FOLDER: "a relative path",
    REPOSITORY: "a URL (https, ssh, git) or user@host:path",
    OBJECT_URL: "the URL of an object, s3://bucket/key or gs://bucket/key, without credentials",
    SHA256: "a SHA-256: 64 digits and letters a to f",
    REVISION: "a commit, tag or branch, without spaces and not beginning with '-'",
    SCRIPT: "a file that ends with .py, or a module such as package.train",
    INTERFACE: "a name of a network interface, without spaces and the characters '/', ':', ',', '=' and '^'",
    PARAMETER: "a letter or '_', followed by letters, digits and '_'",
    FIELD: "the path of a field below spec, such as runtime.mixedPrecision",
    PROGRAM: "the name of a built-in program, or package.module:Class",
}
"""Description of the strings that a pattern matches, after `must be`."""
