"""The process around a service: a socket, and uvicorn."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import uvicorn

from waypost.errors import WaypostError
from waypost.shipping.service import Service

GRACE = 10
"""Seconds that open requests have to finish when the server is stopped."""


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a socket at this address, before anything is loaded."""
    if not 0 <= port <= 65535:
        raise WaypostError(f"port must be from 0 to 65535, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers immediately only if the protocol is named, which saves 40 ms each.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as opened:
        try:
            if os.name == "posix":  # elsewhere it would let two processes listen on one port
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind((host, port))
            opened.listen()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            words = f"cannot listen on {host} port {port} ({reason}); choose another --host or --port"
            raise WaypostError(words) from None
        yield opened


def serve(service: Service, opened: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM; open requests are answered before the end."""
    config = uvicorn.Config(
        service.app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE, server_header=False
    )
    uvicorn.Server(config).run(sockets=[opened])


def try_out(service: Service) -> list[str]:
    """Answer one request, and return the names of the outputs."""
    columns = service.policy.columns
    return list(service.policy.answer(np.zeros((1, len(columns)), np.float32)))
