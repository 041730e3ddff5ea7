"""PyTorch's times (cuBLAS and cuDNN) for operators of autosched, for benchmarks/gpu.py.

    python benchmarks/gpu_torch.py '[["matmul", {"M": 512, "N": 512, "K": 512}]]'

Prints a JSON list with the seconds per call of each operator, or a text that says why there are
none. The type is float32 with TF32 off, or the operator's `dtype`. PyTorch runs eagerly, with
inputs and weights on the GPU; the times are medians of events around many calls.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from collections.abc import Callable
from typing import Any

_REPEATS = 7
_SECONDS = 0.02  # seconds for a repeat


def call_of(torch: Any, name: str, a: dict[str, Any]) -> Callable[[], Any]:
    """The operator as a PyTorch user would write it. Raises KeyError if it has no such form."""
    functional = torch.nn.functional
    dtype = getattr(torch, a.get("dtype", "float32"))

    def array(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=dtype)

    def channels_last(*shape: int) -> Any:
        return array(*shape).contiguous(memory_format=torch.channels_last)

    def matmul() -> Callable[[], Any]:
        x, y = array(a["M"], a["K"]), array(a["K"], a["N"])
        return lambda: x @ y

    def batch_matmul() -> Callable[[], Any]:
        x, y = array(a["B"], a["M"], a["K"]), array(a["B"], a["K"], a["N"])
        return lambda: torch.bmm(x, y)

    def dense_bias_relu() -> Callable[[], Any]:
        x, w, b = array(a["M"], a["K"]), array(a["N"], a["K"]), array(a["N"])
        return lambda: functional.relu(functional.linear(x, w, b))

    def conv2d_nhwc() -> Callable[[], Any]:
        x = channels_last(a["N"], a["CI"], a["H"], a["W"])
        w = channels_last(a["CO"], a["CI"], a["KH"], a["KW"])
        return lambda: functional.conv2d(x, w, stride=a["stride"], padding=a["padding"])

    def depthwise_conv2d_nhwc() -> Callable[[], Any]:
        x = channels_last(a["N"], a["C"], a["H"], a["W"])
        w = array(a["C"], 1, a["K"], a["K"])
        how = {"stride": a["stride"], "padding": a["padding"], "groups": a["C"]}
        return lambda: functional.conv2d(x, w, **how)

    def softmax() -> Callable[[], Any]:
        x = array(a["M"], a["N"])
        return lambda: torch.softmax(x, 1)

    def layer_norm() -> Callable[[], Any]:
        x, gamma, beta = array(a["M"], a["N"]), array(a["N"]), array(a["N"])
        return lambda: functional.layer_norm(x, (a["N"],), gamma, beta)

    def add_relu() -> Callable[[], Any]:
        x, y = array(a["M"], a["N"]), array(a["M"], a["N"])
        return lambda: functional.relu(x + y)

    forms = (matmul, batch_matmul, dense_bias_relu, conv2d_nhwc, depthwise_conv2d_nhwc)
    return {f.__name__: f for f in (*forms, softmax, layer_norm, add_relu)}[name]()


def seconds_of(torch: Any, call: Callable[[], Any]) -> float:
    """Seconds per call."""

    def timed(calls: int) -> float:
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(calls):
            call()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last)) * 1e-3 / calls

    timed(10)
    calls = max(10, min(2000, int(_SECONDS / timed(10))))
    return statistics.median(timed(calls) for _ in range(_REPEATS))


def main() -> None:
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    found: list[float | str] = []
    for name, args in json.loads(sys.argv[1]):
        try:
            with torch.no_grad():
                found.append(seconds_of(torch, call_of(torch, name, args)))
        except (RuntimeError, KeyError) as error:
            found.append(f"{type(error).__name__}: {error}")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
