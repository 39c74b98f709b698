"""An exported policy behind HTTP, with nothing but onnxruntime and NumPy: `python examples/onnx_service.py FILE.onnx`.

Get the file from a run with `waypost export RUN FILE.onnx`, copy it and this script to where they are needed, then:

    curl -d '{"observation": [[0.5, 1.0]]}' http://127.0.0.1:8000/act

`--quick` sends one request to itself and exits.
"""

from __future__ import annotations

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import numpy as np
import onnxruntime

LARGEST_QUESTION = 1 << 20


class Policy:
    """The model, and the names of its columns and outputs."""

    def __init__(self, file: str):
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.columns = json.loads(self.session.get_modelmeta().custom_metadata_map["columns"])

    def answer(self, question: dict[str, object]) -> dict[str, object]:
        rows = np.array(question["observation"], np.float32)
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise ValueError(f"observation must be a list of rows [{', '.join(self.columns)}]")
        if not np.isfinite(rows).all():
            raise ValueError("observation must be finite, got NaN or infinity")
        results = self.session.run(self.outputs, {"observation": rows})
        return {name: values.tolist() for name, values in zip(self.outputs, results, strict=True)}


def handler(policy: Policy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            try:
                size = int(self.headers.get("Content-Length", 0))
                if size > LARGEST_QUESTION:
                    raise ValueError(f"a request must have at most {LARGEST_QUESTION} bytes, got {size}")
                status, answer = 200, policy.answer(json.loads(self.rfile.read(size)))
            except (ValueError, TypeError, KeyError) as error:
                status, answer = 422, {"error": str(error)}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Do not log requests."""

    return Handler


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file")
    arguments.add_argument("--port", type=int, default=8000)
    arguments.add_argument("--quick", action="store_true")
    asked = arguments.parse_args()
    policy = Policy(asked.file)
    server = ThreadingHTTPServer(("127.0.0.1", 0 if asked.quick else asked.port), handler(policy))
    place = f"http://127.0.0.1:{server.server_port}/act"
    print(f"{', '.join(policy.columns)} -> {', '.join(policy.outputs)} at {place}")
    if not asked.quick:
        server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    question = json.dumps({"observation": [[0.0] * len(policy.columns)]}).encode()
    with urlopen(Request(place, question)) as answer:
        print(f"answer: {answer.read().decode()}")
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
