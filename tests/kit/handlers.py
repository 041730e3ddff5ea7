"""Request handlers that misbehave, for workers in tests."""

import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autosched.errors import DeviceError, MeasureError, ScheduleError
from autosched.process.worker import StrayProcessError, has_children


def make_handler() -> Callable[[Any], Any]:
    def handle(request: Any) -> Any:
        match request:
            case ("echo", value):
                return value
            case ("sleep", seconds):
                time.sleep(seconds)
            case ("allocate", count):
                return len(bytes(count))  # the system zeroes the pages when they are touched
            case ("die", code):
                os._exit(code)
            case ("kill",):
                os.kill(os.getpid(), signal.SIGSEGV)
            case ("bug",):
                raise ZeroDivisionError("a bug of ours")
            case ("illegal",):
                raise ScheduleError("no such loop")
            case ("wrong",):
                raise MeasureError("not equal", stage="check", kind="wrong_answer")
            case ("device", code, ends):
                raise DeviceError("a fault", stage="run", kind="crash", code=code, worker_ends=ends)
            case ("variable", name):
                return os.environ.get(name)
            case ("garbage", data, *late):  # writes garbage to its socket before the answer
                time.sleep(sum(late))
                for name in Path("/proc/self/fd").iterdir():
                    if name.is_socket():
                        os.write(int(name.name), data)
            case ("address limit",):
                return resource.getrlimit(resource.RLIMIT_AS)
            case ("copy", value):  # both processes continue, and return from here
                child = os.fork()
                if child:
                    os.waitpid(child, 0)
                return value
            case ("optimize",):
                return sys.flags.optimize
            case ("garbage threshold",):
                return gc.get_threshold()
            case ("pid",):
                return os.getpid()
            case ("stray", what):
                ready, tell = os.pipe()
                child = os.fork()
                if not child and what == "leaves its group":
                    os.setsid()
                if child:
                    os.read(ready, 1)
                    return child
                os.write(tell, b".")
                if what != "answers too":
                    time.sleep(3600)
                return 0
            case ("forks and dies", path):
                child = os.fork()
                if child:
                    Path(path).write_text(str(child))
                    os.kill(os.getpid(), signal.SIGSEGV)
                os.setsid()
                time.sleep(3600)
            case ("says", text, status):
                os.write(2, text)
                if status is not None:
                    os._exit(status)
            case ("leaves a stray",):
                if not os.fork():
                    time.sleep(3600)
                assert has_children()
                raise StrayProcessError("run")
            case ("score",):
                return Path("/proc/self/oom_score_adj").read_text()
            case ("memory",):
                raise MemoryError
        return None

    return handle
