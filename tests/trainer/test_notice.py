"""SIGTERM reaches a replica at every moment of its life, also while it waits for its gang."""

import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest
from support.api import wait_for

if TYPE_CHECKING:
    from trainer.conftest import Launch

pytestmark = pytest.mark.trainer


def test_a_notice_is_heard_while_tensorflow_waits_for_a_member_that_never_comes(
    launch: "Launch", config: dict[str, Any]
) -> None:
    alone = launch(2, config=config, missing=1)
    wait_for("TensorFlow to listen", lambda: _listens(alone.addresses[0]))  # it answers nothing else meanwhile
    alone.processes[0].send_signal(signal.SIGTERM)
    assert alone.wait() == [signal.SIGTERM], "there is nothing to save, and nobody to agree with"


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except OSError:
        return False
