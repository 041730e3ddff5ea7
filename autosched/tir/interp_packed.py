"""Runs a function with packed arguments in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.tir.function import PrimFunc
from autosched.tir.interp import run
from autosched.tir.interp_host import Pointer, Tensor, Values
from autosched.tir.interp_memory import Storage
from autosched.tir.packed import ArgCode


def run_packed(func: PrimFunc, args: Sequence[Any]) -> Any:
    """Call `func`, made by MakePackedAPI, with arrays, numbers and None; return its result.

    Raises InterpreterError, with its message, when a check of the function fails.
    """
    packed = [_packed(value) for value in args]
    codes = np.array([code for code, _ in packed], np.int32)
    result, code = np.zeros(8, np.uint8), np.full(1, ArgCode.NULL, np.int32)
    values = Values([value for _, value in packed])
    out = Pointer(Storage("out_ret_value", result), 0)
    run(func, [values, codes, len(packed), out, code, None])
    match int(code[0]):
        case ArgCode.FLOAT:
            return float(result.view(np.float64)[0])
        case ArgCode.INT:
            return int(result.view(np.int64)[0])
        case ArgCode.BOOL:
            return bool(result.view(np.int64)[0])
    return None


def _packed(value: Any) -> tuple[ArgCode, Any]:
    match value:
        case None:
            return ArgCode.NULL, None
        case bool() | np.bool_():
            return ArgCode.BOOL, int(value)
        case int() | np.integer():
            return ArgCode.INT, int(value)
        case float() | np.floating():
            return ArgCode.FLOAT, np.float64(value)
        case np.ndarray():
            return ArgCode.TENSOR, Tensor.of(value)
        case Tensor():
            return ArgCode.TENSOR, value
    return ArgCode.HANDLE, value
