"""A policy behind HTTP: right answers, clear refusals, and a new policy without a lost request."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jax
import numpy as np
import pytest
import uvicorn
from shipped import a_run, policy
from starlette.testclient import TestClient
from test_every import data

from waypost.cli import main
from waypost.errors import WaypostError
from waypost.shipping import server, service as serving
from waypost.shipping.export import fingerprint
from waypost.shipping.served import Distance, load_served
from waypost.shipping.server import listening
from waypost.shipping.service import Service
from waypost.training.policy import save_policies

ROW = [0.1, -0.2, 0.3]
NAMES = ("observation 0", "observation 1", "observation 2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_run(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def service(run: Path) -> Service:
    return Service(run, reload_seconds=0)


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(service.app)


def ask(client: TestClient, observation: Any) -> Any:
    return client.post("/act", json={"observation": observation})


def test_answers_are_the_agents(client: TestClient) -> None:
    rows = [ROW, [1.0, 1.0, 1.0]]
    answer = ask(client, rows).json()
    np.testing.assert_allclose(answer["action"], policy().act(rows), atol=1e-5)
    np.testing.assert_allclose(answer["waypoint"], policy().guide(rows), atol=1e-5)
    np.testing.assert_allclose(answer["value"], policy().value(rows), atol=1e-5)
    assert answer["policy"] == fingerprint(policy())
    single = ask(client, ROW).json()
    named = ask(client, dict(zip(reversed(NAMES), reversed(ROW), strict=True))).json()
    assert single == named
    np.testing.assert_allclose(single["action"], answer["action"][0], atol=1e-6)


def test_a_large_batch_is_answered_like_a_small_one(client: TestClient) -> None:
    rows = data("por").observations[:20].tolist()
    assert len(rows) > serving.AT_ONCE
    np.testing.assert_allclose(ask(client, rows).json()["action"], policy().act(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("content", "column", "words"),
    [
        ("{", None, "not JSON"),
        ("[" * 100_000, None, "not JSON"),
        ("[]", None, 'one field, "observation"'),
        ('{"observation": []}', None, "one or more rows"),
        ('{"observation": 3}', None, "one or more rows"),
        ('{"observation": [[1, 2, 3], 4]}', None, "row 1: must be a list"),
        ('{"observation": [[1, 2]]}', NAMES[2], "row 0: must have 3 numbers"),
        ('{"observation": [[1, 2, 3, 4]]}', None, ", got 4"),
        ('{"observation": [[1, "warm", 3]]}', NAMES[1], "observation 1 must be a number, got 'warm'"),
        ('{"observation": [1, true, 3]}', NAMES[1], "must be a number, got True"),
        ('{"observation": [[1, [2], 3]]}', NAMES[1], "must be a number"),
        ('{"observation": [[1, 2, NaN]]}', NAMES[2], "must be a finite 32-bit number, got nan"),
        ('{"observation": [[1, 2, 1e300]]}', NAMES[2], "must be a finite 32-bit number"),
        (f'{{"observation": [[1, 2, {10**400}]]}}', NAMES[2], "must be a finite 32-bit number"),
        ('{"observation": {"observation 0": 1}}', NAMES[1], "observation 1 is missing"),
        (json.dumps({"observation": dict.fromkeys([*NAMES, "more"], 1)}), "more", "'more' is not a column"),
        (json.dumps({"observation": [ROW] * 5000}), None, "at most 4096"),
    ],
)
def test_bad_input_is_422_with_the_column(content: str, column: str | None, words: str, client: TestClient) -> None:
    answer = client.post("/act", content=content)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert answer.json()["column"] == column


def test_a_question_that_is_too_large_is_not_read(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LARGEST_QUESTION", 100)
    assert client.post("/act", content=b"x" * 101).status_code == 413


def test_numbers_that_overflow_in_the_policy_are_refused(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(service.policy), "answer", lambda *_: {"action": np.array([np.inf])})
    answer = ask(client, ROW)
    assert (answer.status_code, answer.json()["column"]) == (422, None)
    assert "overflow" in answer.json()["error"]


def test_a_fault_of_ours_shows_no_traceback(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(service.policy), "answer", lambda *_: 1 / 0)
    answer = ask(client, ROW)
    assert answer.status_code == 500
    assert answer.json() == {"error": "the policy could not answer; see the server's log"}


def test_health_metrics_and_about(run: Path) -> None:
    client = TestClient(Service(run, reload_seconds=0).app)
    ask(client, [data("por").observations[0].tolist(), [50.0, 0.0, 0.0]])
    ask(client, [])
    health = client.get("/health").json()
    assert (health["status"], health["run"], health["failure"]) == ("ok", fingerprint(policy()), None)
    said = client.get("/metrics").text.splitlines()
    assert 'waypost_requests_total{status="200"} 1' in said
    assert 'waypost_requests_total{status="422"} 1' in said
    assert "waypost_observations_total 2" in said
    assert "waypost_request_seconds_count 2" in said
    assert "waypost_far_observations_total 1" in said
    assert client.get("/about").json()["columns"] == list(NAMES)


def test_a_new_policy_takes_over_without_losing_a_request(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    service = Service(run, reload_seconds=0.02)
    old = policy()
    new = replace(old, agent=jax.tree.map(lambda x: 0.5 * x if x.ndim == 2 else x, old.agent))
    actions = {fingerprint(each): each.act(ROW) for each in (old, new)}
    answers: list[Any] = []
    with TestClient(service.app) as client, ThreadPoolExecutor(2) as pool:
        deadline = time.monotonic() + 20
        while service.metrics.reloads == 0 and time.monotonic() < deadline:
            waiting = [pool.submit(ask, client, ROW) for _ in range(20)]
            if not answers:
                save_policies([new, replace(new, seed=4)], run / "policy")
            answers += [each.result() for each in waiting]
        answers.append(ask(client, ROW))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.json()["policy"] for answer in answers} == set(actions)
    for answer in answers:
        np.testing.assert_allclose(answer.json()["action"], actions[answer.json()["policy"]], atol=1e-5)


def test_a_policy_that_cannot_be_read_does_not_take_over(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    client = TestClient(Service(run, reload_seconds=0).app)
    (run / "policy" / "seed-3.safetensors").write_bytes(b"rubbish")
    answer = client.post("/reload")
    assert answer.status_code == 409
    assert "seed-3.safetensors" in answer.json()["failure"]
    assert ask(client, ROW).json()["policy"] == fingerprint(policy())
    assert "seed-3.safetensors" in client.get("/health").json()["failure"]
    save_policies([policy(), replace(policy(), seed=4)], run / "policy")
    assert client.post("/reload").status_code == 200
    assert client.get("/health").json()["failure"] is None


def test_distance_is_one_where_the_data_end() -> None:
    spread = np.random.default_rng(0).uniform(0, 1, (2000, 2)).astype(np.float32) * [1.0, 1000.0]
    distance = Distance(spread)
    inside, outside = distance(np.array([[0.5, 500.0], [0.5, 3000.0]]))
    assert inside < 1.0
    assert outside > 50.0
    still = Distance(np.ones((5, 2), np.float32))
    assert still(np.ones((1, 2))) == 0.0


def test_without_data_there_is_no_distance(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "log.npz").unlink()
    served = load_served(run)
    assert "cannot be read" in served.note
    assert set(served.answer(np.zeros((1, 3), np.float32))) == {"action", "value", "waypoint"}


def test_noise_is_drawn_for_each_request(tmp_path: Path) -> None:
    save_policies([policy("waypoint", action_noise=0.9)], tmp_path / "policy")
    served = load_served(tmp_path)
    rows = np.zeros((2, 3), np.float32)
    first, second = (served.answer(rows)["action"] for _ in range(2))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


def test_an_agent_that_remembers_is_refused(tmp_path: Path) -> None:
    policy("rvs-r").save(tmp_path)
    with pytest.raises(WaypostError, match="a rvs-r agent has memory"):
        load_served(tmp_path)


def test_an_address_that_is_taken_is_refused_in_a_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(WaypostError, match=f"cannot listen on 127.0.0.1 port {port}"), listening("127.0.0.1", port):
            pass
    with pytest.raises(WaypostError, match="port must be from 0 to 65535"), listening("127.0.0.1", 70_000):
        pass


def test_a_folder_without_a_policy_is_refused_in_a_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(WaypostError, match=r"has no policy\.json"):
        Service(tmp_path)
    with pytest.raises(WaypostError, match="reload_seconds must be 0 or more, got -1"):
        Service(run, reload_seconds=-1)


def test_it_answers_over_a_socket_until_it_is_stopped(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[uvicorn.Server] = []

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config):
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(server.uvicorn, "Server", Kept)
    with listening("127.0.0.1", 0) as opened, ThreadPoolExecutor(1) as pool:
        # Otherwise asyncio would let small answers wait for the client's word on the ones before.
        assert opened.proto == socket.IPPROTO_TCP
        done = pool.submit(server.serve, service, opened)
        try:
            place = f"http://127.0.0.1:{opened.getsockname()[1]}/act"
            answer = httpx.post(place, json={"observation": ROW}, timeout=20)
        finally:
            servers[0].should_exit = True
        done.result(20)
    assert answer.json()["policy"] == fingerprint(policy())


def test_a_service_is_tried_from_the_command_line(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["serve", str(run), "--port", "0", "--check"])
    assert stop.value.code == 0
    assert "answers action, value, waypoint, distance" in capfd.readouterr().err
