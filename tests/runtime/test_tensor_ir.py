"""The native checks of tensors, on tensors that say of themselves what a test wants."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build
from autosched.runtime import quick_call
from autosched.runtime.cpu import CpuKernel, load
from autosched.runtime.packed import DLTensor
from autosched.runtime.quick_call import UNFIT, learn_tensors
from autosched.target import cpu_target

SHAPE = (4, 1, 6)


class Tensor:
    """As PyTorch's: its DLTensor says where the memory of `array` is, or something else."""

    __module__ = "torch"

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array  # keeps the memory
        self.about = DLTensor.of(array)
        self.requires_grad: Any = False
        self.sign: Any = False
        self.fails = False

    def is_neg(self) -> Any:
        if isinstance(self.sign, Exception):
            raise self.sign
        return self.sign

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.array

    def untyped_storage(self) -> Any:
        return SimpleNamespace(nbytes=lambda: self.array.nbytes)


def describe(tensor: Tensor, out: int) -> int:
    if tensor.fails:
        return -1
    ctypes.memmove(out, ctypes.addressof(tensor.about), ctypes.sizeof(DLTensor))
    return 0


_VIEW = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> CpuKernel:
    """An addition whose native checks can know the stand-in for PyTorch's tensors."""
    function = _VIEW(describe)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    words = (ctypes.c_uint64 * 7)(1 + (3 << 32), 0, 0, 0, 0, address, 0)
    name = b"dlpack_exchange_api"
    capsule = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
    )(("PyCapsule_New", ctypes.pythonapi))(ctypes.addressof(words), name, None)
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule, raising=False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())
    monkeypatch.setattr(quick_call, "_known", (ctypes.c_uint64 * 9)())
    a, b = (te.placeholder(SHAPE, name=n) for n in "AB")
    c = te.compute(SHAPE, lambda i, j, k: a[i, j, k] + b[i, j, k], name="C")
    found = load(build(te.create_schedule(c.op), [a, b, c], cpu_target(1), name="add"))
    found.keep = function, words, name  # type: ignore[attr-defined]  # as long as it is called
    return found


def tensors() -> list[Tensor]:
    return [Tensor(np.arange(k, k + 24, dtype=np.float32).reshape(SHAPE)) for k in range(3)]


def strides(*steps: int) -> Callable[[Tensor], None]:
    def change(tensor: Tensor) -> None:
        tensor.about.strides = (ctypes.c_int64 * len(steps))(*steps)

    return change


def field(name: str, value: Any) -> Callable[[Tensor], None]:
    return lambda tensor: setattr(tensor.about, name, value)


def own(name: str, value: Any) -> Callable[[Tensor], None]:
    return lambda tensor: setattr(tensor, name, value)


def shifted(by: int) -> Callable[[Tensor], None]:
    """Its memory begins `by` bytes earlier, and its first element so much later."""

    def change(tensor: Tensor) -> None:
        tensor.about.data -= by
        tensor.about.byte_offset = by

    return change


def shape(extents: Sequence[int]) -> Callable[[Tensor], None]:
    def change(tensor: Tensor) -> None:
        tensor.about.ndim = len(extents)
        tensor.about.shape = (ctypes.c_int64 * len(extents))(*extents)

    return change


FITS: dict[str, Callable[[Tensor], None]] = {
    "no strides": lambda tensor: None,
    "strides": strides(6, 6, 1),
    "any stride of a single one": strides(6, 77, 1),
    "an offset": shifted(64),
}
UNFITTING: dict[str, Callable[[Tensor], None]] = {
    "a GPU": field("device_type", 2),
    "pinned memory": field("device_type", 3),
    "integers": field("code", 0),
    "doubles": field("bits", 64),
    "vectors": field("lanes", 2),
    "fewer rows": shape((3, 1, 6)),
    "longer rows": shape((4, 1, 7)),
    "flat": shape((24,)),
    "another dimension": shape((4, 1, 6, 1)),
    "longer steps": strides(7, 6, 1),
    "steps of two": strides(12, 12, 2),
    "backwards": strides(-6, 6, 1),
    "repeated": strides(0, 6, 1),
    "an odd address": lambda tensor: setattr(tensor.about, "byte_offset", 2),
    "no address": field("data", None),
    "a gradient": own("requires_grad", True),
    "a gradient of another kind": own("requires_grad", 0),
    "a sign apart": own("sign", True),
    "a failing question": own("sign", RuntimeError("which sign")),
    "no memory": own("fails", True),
}


@pytest.mark.parametrize("position", range(3))
def test_what_fits_and_what_does_not(kernel: CpuKernel, position: int) -> None:
    assert kernel.quick(tuple(tensors())) == UNFIT  # not known yet
    assert learn_tensors(tensors())
    assert not learn_tensors(tensors())
    for name, change in {**FITS, **UNFITTING}.items():
        given = tensors()
        change(given[position])
        assert kernel.quick(tuple(given)) == (0 if name in FITS else UNFIT), name
        sums = given[0].array + given[1].array
        changed = given[2].array if name in FITS else None
        if changed is not None:
            np.testing.assert_array_equal(changed, sums, err_msg=name)
        mixed: list[Any] = [t.array for t in tensors()]
        mixed[position] = given[position]
        assert kernel.quick(tuple(mixed)) == (0 if name in FITS else UNFIT), name


def test_another_exchange_api_is_left_alone(
    kernel: CpuKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = kernel.keep[1]  # type: ignore[attr-defined]
    for word, value in ((0, 2), (5, 0)):  # a later major version, no such function
        before, words[word] = words[word], value
        assert not learn_tensors(tensors())
        words[word] = before
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", 3)
    assert not learn_tensors(tensors())
    monkeypatch.delattr(Tensor, "__dlpack_c_exchange_api__")
    assert not learn_tensors(tensors())
    given = tensors()
    kernel(*given)  # as NumPy's views
    np.testing.assert_array_equal(given[2].array, given[0].array + given[1].array)
