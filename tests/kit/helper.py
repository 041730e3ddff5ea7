"""In place of the second process that works out features: the same work in this one."""

from __future__ import annotations

from typing import Any

from autosched.process.worker import Worker
from autosched.search.featurize import Helper, make_handler


class StubWorker(Worker):
    """Answers at once; has no process."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def send(self, request: Any) -> None:
        self.reply = make_handler()(request)

    def receive(self, timeout: float, stage: str) -> Any:
        return self.reply


class StubHelper(Helper):
    """No second process."""

    def start(self) -> Worker:
        if self._worker is None:
            self._worker = StubWorker("autosched.search.featurize:make_handler")
        return self._worker
