"""A policy behind HTTP: observations in, actions out. Starlette and uvicorn, the extra `serve`.

    POST /act      {"observation": [[...], ...]} -> {"action": [...], "waypoint": ..., "value": ..., "distance": ...}
                   and for mixed actions {"named_action": [{"valve": "open", "heater": 41.5}, ...]}
    GET  /health   status and current policy
    GET  /metrics  counts and times, in Prometheus' format
    GET  /about    columns, bounds, inputs and outputs
    POST /reload   load the policy's files again now

A policy that is replaced on disk is loaded in a thread and takes over between two requests. Open requests are answered
by the policy they started with.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from waypost.errors import WaypostError
from waypost.shipping.metrics import Metrics
from waypost.shipping.questions import BadQuestion, read_question
from waypost.shipping.served import Served, load_served, stamp_of

LARGEST_QUESTION = 8 << 20
"""Bytes."""
AT_ONCE = 16
"""Up to this many observations, answering a request takes less time than handing it to a thread."""
log = logging.getLogger("waypost.serve")


class Service:
    """The current policy, and the counts of its requests."""

    def __init__(self, run: Path, seed: int | None = None, data: Any = None, reload_seconds: float = 1.0):
        if not reload_seconds >= 0:
            raise WaypostError(f"reload_seconds must be 0 or more, got {reload_seconds}")
        self.load: Callable[[], Served] = lambda: load_served(run, seed, data)
        self.run, self.reload_seconds = run, reload_seconds
        self.policy = self.load()
        self.metrics = Metrics()
        self.failure = ""
        """Why the current files could not be loaded."""
        self.seen = self.policy.stamp
        self.reading = asyncio.Lock()

    @property
    def app(self) -> Starlette:
        routes = [
            Route("/act", self.act, methods=["POST"]),
            Route("/reload", self.reload, methods=["POST"]),
            Route("/health", self.health),
            Route("/metrics", self.show_metrics),
            Route("/about", self.about),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    # -- requests -------------------------------------------------------------------------------

    async def act(self, request: Request) -> Response:
        begun, policy, rows = time.perf_counter(), self.policy, 0
        try:
            observations, single = read_question(await _body(request), policy.columns)
            if len(observations) <= AT_ONCE:
                said = policy.answer(observations)
            else:
                said = await run_in_threadpool(policy.answer, observations)
            if not all(np.isfinite(values).all() for values in said.values()):
                raise BadQuestion("observation is so large that the policy's outputs overflow")
            rows = len(observations)
            self.metrics.far += int((said.get("distance", np.zeros(0)) > 1.0).sum())
            answer: dict[str, Any] = {name: values.tolist() for name, values in said.items()}
            if policy.in_words is not None:
                answer["named_action"] = [policy.in_words(action) for action in said["action"]]
            if single:
                answer = {name: values[0] for name, values in answer.items()}
            response = JSONResponse({**answer, "policy": policy.about["run"]})
        except BadQuestion as error:
            response = JSONResponse({"error": error.reason, "column": error.column}, error.status)
        except ClientDisconnect:
            response = JSONResponse({"error": "the request was cut off"}, 400)
        except Exception:
            log.exception("a request could not be answered")
            response = JSONResponse({"error": "the policy could not answer; see the server's log"}, 500)
        self.metrics.count(response.status_code, rows, time.perf_counter() - begun)
        return response

    async def health(self, request: Request) -> Response:
        about = self.policy.about
        known = {name: about[name] for name in ("algorithm", "seed", "run", "waypost")}
        return JSONResponse({"status": "ok", **known, "reloads": self.metrics.reloads, "failure": self.failure or None})

    async def about(self, request: Request) -> Response:
        measured = [] if self.policy.distance is None else ["distance"]
        return JSONResponse({**self.policy.about, "also": measured, "note": self.policy.note or None})

    async def show_metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def reload(self, request: Request) -> Response:
        good = await self.take_over()
        answer = {"policy": self.policy.about["run"], "failure": self.failure or None}
        return JSONResponse(answer, 200 if good else 409)

    # -- the policy -----------------------------------------------------------------------------

    async def take_over(self) -> bool:
        """Load the files again; if they hold no working policy, the current one stays."""
        async with self.reading:
            try:
                self.seen = await run_in_threadpool(stamp_of, self.run)
                self.policy = await run_in_threadpool(self.load)
            except (WaypostError, OSError) as error:
                self.failure = " ".join(str(error).split())
                self.metrics.failed_reloads += 1
                log.warning("the new policy could not be loaded: %s", self.failure)
                return False
            self.failure = ""
            self.metrics.reloads += 1
            return True

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.reload_seconds)
            with suppress(OSError):  # the files are being replaced
                if await run_in_threadpool(stamp_of, self.run) != self.seen:
                    await self.take_over()

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self._watch()) if self.reload_seconds > 0 else None
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching


async def _body(request: Request) -> bytes:
    """The whole request, if it is not too large."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_QUESTION:
            raise BadQuestion(f"must have at most {LARGEST_QUESTION} bytes", status=413)
    return bytes(content)
