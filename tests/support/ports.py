"""Ports of this machine that nobody listens on."""

import socket


def free_ports(count: int) -> list[int]:
    """Return `count` different ones; whoever comes first may take them."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [int(item.getsockname()[1]) for item in sockets]
    finally:
        for item in sockets:
            item.close()
