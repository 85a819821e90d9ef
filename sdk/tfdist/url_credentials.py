"""Credentials in URLs: users, passwords and signatures, which no log or report may have."""

import re
from typing import Final

MASK: Final = "***"

_USER: Final = re.compile(r"\b(https?://)[^/\s@'\"]{1,1024}@", re.IGNORECASE)
_PASSWORD: Final = re.compile(r"(://[^/\s:@'\"]{0,256}:)[^/\s@'\"]{1,1024}(?=@)")
_QUERY: Final = re.compile(
    r"([?&](?:[\w.-]{0,40}(?:signature|credential|token|secret|password|apikey|api_key|accesskeyid)|sig|key)=)[^&#\s'\"]+",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """Return text whose URLs have a mask in place of credentials: of `https` the whole user, otherwise the password."""
    if "://" not in text:
        return text
    return _QUERY.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1{MASK}", _USER.sub(rf"\1{MASK}@", text)))
