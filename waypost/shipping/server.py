"""The process around a service: a socket, and uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import uvicorn

from waypost.errors import WaypostError
from waypost.shipping.service import Service

GRACE = 10
"""Seconds that requests under way have to finish when the server is stopped."""


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at this address, before anything is loaded."""
    if not 0 <= port <= 65535:
        raise WaypostError(f"port must be from 0 to 65535, got {port}")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WaypostError(f"cannot listen at {host} port {port} ({reason}); choose another --host or --port") from None
    with opened:
        yield opened


def serve(service: Service, opened: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM; requests under way are answered before the end."""
    config = uvicorn.Config(
        service.app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE, server_header=False
    )
    uvicorn.Server(config).run(sockets=[opened])


def try_out(service: Service) -> list[str]:
    """Answer one question, and say what the answer consists of."""
    columns = service.policy.columns
    return list(service.policy.answer(np.zeros((1, len(columns)), np.float32)))
