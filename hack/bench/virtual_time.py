"""An event loop without a clock: its time moves to the next timer when nothing else is to do.

A simulation of minutes takes milliseconds, and its order of events depends on no machine.
"""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any, Final

_THREAD_SECONDS: Final = 10.0
"""Real time after which a thread counts as stuck."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Runs callbacks as the ordinary loop does; `time` is virtual, in seconds from 0."""

    def __init__(self) -> None:
        self._selector_of_time = _Selector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        """Return the virtual time."""
        return self._selector_of_time.now


class _Selector(selectors.BaseSelector):
    """Waits for nothing: what would be waited for has passed at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self._files = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return the files that are ready now, and let the time pass otherwise.

        Raises:
            RuntimeError: nothing would ever happen.
        """
        # Without a timer, only a thread that ends can wake the loop.
        ready = self._files.select(_THREAD_SECONDS if timeout is None else 0)
        if not ready and timeout is None:
            raise RuntimeError("the simulation waits for something that no timer brings")
        if not ready:
            self.now += max(0.0, timeout or 0.0)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See `selectors.BaseSelector.register`."""
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See `selectors.BaseSelector.unregister`."""
        return self._files.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See `selectors.BaseSelector.get_map`."""
        return self._files.get_map()

    def close(self) -> None:
        """See `selectors.BaseSelector.close`."""
        self._files.close()
