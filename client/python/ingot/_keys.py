"""Keys of a connection: the files of `ingot key new`, and why a server refuses one."""
import os
from typing import Any, NamedTuple, Optional

import zmq
from zmq.utils.monitor import parse_monitor_message

from .errors import ConnectionLost

EVENTS = zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
MECHANISM_MISMATCH = 0x11000001  # ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH


class Keys(NamedTuple):
    public: bytes
    secret: bytes
    server: bytes


def _line(path: str, name: str) -> bytes:
    with open(path, encoding="ascii") as f:
        for line in f:
            word, _, key = line.rstrip("\n").partition(" ")
            if word == name and len(key) == 40:
                return key.encode()
    raise ValueError(f"{path}: it has no line \"{name} KEY\"")


def load_keys(key: Optional[str], server_key: Optional[str]) -> Optional[Keys]:
    """key: the path of this program's key; server_key: the server's public key, or the path of a file with it."""
    if key is None and server_key is None:
        return None
    if key is None or server_key is None:
        raise ValueError("key and server_key belong together")
    if os.stat(key).st_mode & 0o077:
        raise ValueError(f"{key}: others may read or write it: chmod 600")
    pinned = _line(server_key, "public") if os.path.exists(server_key) else server_key.encode()
    if len(pinned) != 40:
        raise ValueError("server_key is neither a key of 40 characters nor a file")
    return Keys(_line(key, "public"), _line(key, "secret"), pinned)


def forget_events(monitor: Any) -> None:
    """Those of connections before the one at hand."""
    plain: Any = zmq.Socket.shadow(monitor.underlying)
    while plain.poll(0):
        plain.recv_multipart()


def raise_refusal(monitor: Any, endpoint: str) -> None:
    """Raises when the monitor tells that the server does not take the connection."""
    plain: Any = zmq.Socket.shadow(monitor.underlying)  # of the asyncio client's socket too
    while plain.poll(0):
        event = parse_monitor_message(plain.recv_multipart())
        if event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            raise ConnectionLost(f"{endpoint}: the server refuses this key")
        if event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and event["value"] == MECHANISM_MISMATCH:
            raise ConnectionLost(f"{endpoint}: one side has keys and the other has none (key, server_key)")
