"""The patterns of texts, each with what a person has to write; the schema takes the one, messages the other."""

from typing import Final

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"

JOB_NAME: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_LABEL: Final = rf"^{_LABEL}$"
DNS_NAME: Final = rf"^{_DOMAIN}$"
QUALIFIED_NAME: Final = rf"^({_DOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
MANAGER: Final = rf"^{_DOMAIN}/\S+$"
QUANTITY: Final = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]{1,2}))?$"
"""Kubernetes' grammar of an amount, without negative ones and those beyond all bounds."""
LABEL_VALUE: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
VARIABLE: Final = "^[^=]+$"
MOUNT_PATH: Final = "^[^:]+$"
DIRECTORY: Final = r"^(/|[a-z][a-z0-9+.-]*://)([^{}]|\{name\}|\{namespace\}|\{uid\})*$"
FOLDER: Final = "^[^/].*$"
REPOSITORY: Final = r"^(https?|ssh|git|file)://\S+$|^\S+@\S+:\S+$"
REVISION: Final = r"^[^-\s]\S*$"
PROGRAM: Final = r"^[A-Za-z_][A-Za-z0-9_.]*(:[A-Za-z_][A-Za-z0-9_]*)?$"

WORDS: Final = {
    JOB_NAME: "write small letters, digits and dashes, a letter first and no dash last",
    DNS_LABEL: "write small letters, digits and dashes, no dash first or last",
    DNS_NAME: "write small letters, digits, dashes and dots, as in a name of Kubernetes",
    QUALIFIED_NAME: "write a name such as cpu or nvidia.com/gpu",
    LABEL_VALUE: "write letters, digits, dashes, underscores and dots, a letter or digit first and last",
    MANAGER: "write a domain and a name, such as tfdist.dev/controller",
    VARIABLE: "write a name without =",
    MOUNT_PATH: "write a path without :",
    DIRECTORY: "write an absolute path or a URL, with no braces but {name}, {namespace} and {uid}",
    FOLDER: "write a path that does not begin with /",
    REPOSITORY: "write a URL (https, ssh, git, file) or user@host:path",
    REVISION: "write a commit, tag or branch without spaces, which does not begin with a dash",
    PROGRAM: "write the name of a built-in program, or package.module:Class",
}
"""What to write instead of a text that a pattern refuses."""
