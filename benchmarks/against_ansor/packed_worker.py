"""TVM's host functions, called with any arguments (see packed.py); runs in the peer alone."""

from __future__ import annotations

import ctypes
from typing import Any

from worker import serve

import numpy as np  # isort: skip  (after the worker, which takes the output)
import packed_values  # isort: skip
import worker_tasks  # isort: skip
import tvm  # isort: skip
from tvm import te  # isort: skip
from tvm.runtime import DataType  # isort: skip

Functions: dict[str, Any] = {}


def call(text: str, values: list[packed_values.Value]) -> str:
    """Why the function refuses these arguments; an empty text where it takes them."""
    if text not in Functions:
        names: dict[str, Any] = dict(worker_tasks.NAMES)
        exec(text, names)
        schedule = te.create_schedule(names["result"].op)
        lowered = tvm.lower(schedule, names["arguments"], name="f")
        Functions[text] = tvm.build(lowered, target="llvm")
    given = [packed_values.made(value) for value in values]
    try:
        Functions[text](*[_array(each) for each in given])
    except tvm.TVMError as error:
        return str(error).strip().splitlines()[-1]
    return ""


def _array(value: Any) -> Any:
    """The argument; an array with the strides that it has."""
    if not isinstance(value, np.ndarray):
        return value
    kept = tvm.nd.array(np.zeros(1, np.float32)).handle.contents
    found = type(kept)()
    sizes = ctypes.c_int64 * max(1, value.ndim)
    found.shape_of = sizes(*value.shape)
    found.strides_of = sizes(*[stride // value.itemsize for stride in value.strides])
    found.values = value
    found.data, found.device = ctypes.c_void_p(value.ctypes.data), tvm.cpu(0)
    found.ndim, found.dtype = value.ndim, DataType(str(value.dtype))
    found.shape = ctypes.cast(found.shape_of, ctypes.POINTER(ctypes.c_int64))
    found.strides = ctypes.cast(found.strides_of, ctypes.POINTER(ctypes.c_int64))
    return tvm.nd.NDArray(ctypes.pointer(found), True)


if __name__ == "__main__":
    serve(call=call)
