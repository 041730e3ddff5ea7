"""Serve functions to `peer.Peer`; runs in the peer's interpreter alone, imported before TVM.

From its import on, what anybody prints goes to standard error: answers alone are on the pipe.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def serve(**functions: Callable[..., Any]) -> None:
    """Answer `[name, arguments]` lines of standard input with `[error, answer]` lines."""
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = [None, functions[name](*arguments)]
        except Exception as error:
            text = str(error).strip() or traceback.format_exc().strip()
            answer = [f"{type(error).__name__}: {text.splitlines()[-1]}", None]
        print(json.dumps(answer), file=_ANSWERS, flush=True)
