"""Reads pages of lists. A 200 without a list, as of a proxy, is an error to be retried: it does not mean no objects."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tfdist_operator.kube.client import Json
from tfdist_operator.kube.errors import Unavailable

_OK: Final = 200


def items(page: Json) -> list[Any]:
    """Return the objects of a page; the API server encodes an empty list of metadata as null.

    Raises:
        Unavailable: the page is not a list.
    """
    with well_formed():
        page_items = page["items"]
        if page_items is not None and not isinstance(page_items, list):
            msg = f"items is {type(page_items).__name__}"
            raise TypeError(msg)
    return page_items or []


@contextmanager
def well_formed() -> Iterator[None]:
    """Convert errors of a response whose content is not that of the API server.

    Raises:
        Unavailable: the block raised such an error.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unavailable(_OK, "Malformed", f"the answer is not a list of the API server: {error!r}") from error
