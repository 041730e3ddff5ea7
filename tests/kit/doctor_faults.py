"""The processes of `autosched doctor`, with faults from the variable BREAK: `compile:abort,...`."""

from __future__ import annotations

import os
import time
from typing import Any

from autosched.cli import doctor_process
from autosched.errors import MeasureError
from autosched.measure import run
from autosched.process.worker import Handler

BREAK = "AUTOSCHED_TEST_BREAK"


def make_process() -> Handler:
    """The handler of `doctor`'s own process, which neither trains a cost model nor reads memory."""
    return _broken(doctor_process.make_handler(), {"model": 0.1, "peak": (2e11, 1e10)})


def make_runner() -> Handler:
    """The handler of the process that runs kernels."""
    return _broken(run.make_handler(), {})


def _broken(handler: Handler, known: dict[str, Any]) -> Handler:
    faults = dict(fault.split(":") for fault in os.environ.get(BREAK, "").split(",") if fault)

    def handle(request: tuple[Any, ...]) -> Any:
        match faults.get(request[0]):
            case "abort":
                os.abort()
            case "hang":
                time.sleep(1e6)
            case "import":
                raise ImportError("libgomp.so.1: cannot open shared object file")
            case "wrong":
                raise MeasureError(
                    "C[0, 0]: found 1, expected 2", stage="check", kind="wrong_answer"
                )
        return known[request[0]] if request[0] in known else handler(request)

    return handle
