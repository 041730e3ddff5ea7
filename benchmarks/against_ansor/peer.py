"""Ask Ansor itself: another interpreter, in which TVM is installed, answers questions in JSON.

The comparisons of this folder take `--peer PYTHON`: an interpreter (or a script that starts one)
that imports a TVM which still has its auto_scheduler, 0.8 to 0.19. autosched never imports it.
Each comparison has a worker, a script that only that interpreter runs: it serves functions with
`worker.serve`, and is asked for them here.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent


class PeerError(Exception):
    """The peer refused a question; the text is its last line."""


class Peer:
    """A worker that runs in the peer's interpreter until the block ends."""

    def __init__(self, python: str, worker: str, *words: str) -> None:
        self.command = [python, str(HERE / worker), *words]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def ask(self, function: str, *arguments: Any, seconds: float | None = None) -> Any:
        """What the worker's function returns; PeerError with its message where it raises.

        One that takes more than `seconds` is an error, too, after which nothing more can be asked.
        """
        assert self.process.stdin and self.process.stdout
        print(json.dumps([function, arguments]), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise PeerError(f"no answer in {seconds} seconds")
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the peer ended with exit code {self.process.wait()}: {self.command}")
        error, answer = json.loads(line)
        if error is not None:
            raise PeerError(error)
        return answer


def each_seed(options: argparse.Namespace, worker: str, case: Callable[[Peer, int], None]) -> None:
    """`case` for every seed, with one peer as long as it lives."""
    todo = list(range(options.seed, options.seed + options.cases))
    while todo:
        with Peer(options.peer, worker) as peer:
            try:
                while todo:
                    case(peer, todo.pop(0))
            except SystemExit as end:  # it took too long; another one goes on
                print(end)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with what all comparisons take."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True, help="an interpreter that imports TVM's Ansor")
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--cases", type=int, default=100, help="how many, with a seed each")
    return parser
