"""A headless Chromium, controlled over a pipe: tests open pages, view them and query them."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--disable-extensions", "--no-default-browser-check", "--remote-debugging-pipe"),
)
_PATIENCE = 300.0  # in seconds, far more than a busy machine needs
# Chromium reads from descriptor 3 and writes to 4.
_START = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"


def find_chromium() -> str | None:
    """The path of the browser; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """A browser with one page; `requests` are the addresses that the page asked for."""

    def __init__(self, program: str, profile: Path) -> None:
        """`profile` is a new folder for the browser's own files."""
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        # Descriptor numbers that do not collide with 3 and 4.
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (theirs_in, theirs_out)]
        command = [sys.executable, "-c", _START.format(*theirs), program, *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *theirs):
            os.close(end)
        self._in, self._out = ours_in, ours_out
        self._rest = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = ""
        try:
            self.call("Browser.close")
        except (OSError, EOFError, AssertionError):
            self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the browser's protocol. Raises AssertionError on an error."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], _PATIENCE)
            assert ready, f"the browser said nothing for {_PATIENCE:g} s"
            data = os.read(self._in, 1 << 20)
            if not data:
                raise EOFError("the browser ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        parameters = message.get("params", {})
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        self._loaded |= message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])
        return message

    def look(self, width: int, *, dark: bool = False, phone: bool = False) -> None:
        """Set the width of the page, and whether the user prefers dark colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path) -> None:
        """Open a file and return when it is loaded."""
        self._loaded = False
        answer = self.call("Page.navigate", url=path.resolve().as_uri())
        assert "errorText" not in answer, answer["errorText"]
        while not self._loaded:
            self._receive()

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, name: str, values: Sequence[str]) -> str:
        """Wait until the document's attribute `data-NAME` is one of `values`; return the value."""
        wanted = json.dumps(list(values))
        return str(
            self.ask(
                f"""new Promise((done) => {{
  const root = document.documentElement;
  const look = () => {wanted}.includes(root.dataset.{name}) && done(root.dataset.{name});
  new MutationObserver(look).observe(root, {{ attributes: true }});
  look();
}})"""
            )
        )

    def screenshot(self) -> bytes:
        """A PNG of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
        )
        return base64.b64decode(answer["data"])
