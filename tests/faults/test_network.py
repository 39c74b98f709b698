"""Nothing of ours talks to a network: it works where there are no sockets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import socket, sys

def refused(*arguments, **options):
    raise AssertionError("a socket was asked for")

class Socket(socket.socket):
    def __init__(self, family=socket.AF_INET, *arguments, **options):
        if family in (-1, socket.AF_INET, socket.AF_INET6):
            refused()
        super().__init__(family, *arguments, **options)

socket.socket = Socket
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refused

import waypost
from waypost.cli import main

run, data, page = sys.argv[1:]
small = "--steps 2 --hidden 8 --batch-size 8 --episodes 1 --preset none".split()
for words in (
    ["train", "bc", "--data", "t-maze", "--out", run, *small],
    ["evaluate", run],
    ["inspect", data, "--out", page],
    ["report", run],
    ["list"],
):
    try:
        main(words)
    except SystemExit as stop:
        assert not stop.code, words
"""


def test_no_command_needs_a_network(originals: Path, tmp_path: Path) -> None:
    words = [str(each) for each in (tmp_path / "run", originals / "data.npz", tmp_path / "page.html")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").is_file()
