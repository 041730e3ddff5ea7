"""PyTorch's tensors as arguments: what the native checks take passes the checks in Python."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched import te
from autosched.driver import build
from autosched.errors import MeasureError
from autosched.export.link import linker
from autosched.runtime.cpu import CpuKernel, load
from autosched.runtime.quick_call import UNFIT, learn_tensors
from autosched.session.export import ExportOptions, export
from autosched.target import cpu_target
from kit.exporting import matmul, record

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
if "__dlpack_c_exchange_api__" not in vars(torch.Tensor):
    pytest.skip("before PyTorch 2.10 tensors are looked at in Python", allow_module_level=True)
Tensor = Any
SHAPE = (4, 6)


def add_kernel(dtype: str = "float32") -> CpuKernel:
    a, b = (te.placeholder(SHAPE, dtype, name=name) for name in "AB")
    c = te.compute(SHAPE, lambda i, j: a[i, j] + b[i, j], name="C")
    return load(build(te.create_schedule(c.op), [a, b, c], cpu_target(1), name="add"))


def tensors(dtype: Any = None) -> list[Tensor]:
    return [torch.arange(k, k + 24).reshape(SHAPE).to(dtype or torch.float32) for k in range(3)]


def odd(x: Tensor) -> Tensor:
    raw = torch.zeros(24 * 4 + 4, dtype=torch.uint8)
    return torch.frombuffer(raw.numpy(), dtype=torch.float32, count=24, offset=1).reshape(SHAPE)


def freed(x: Tensor) -> Tensor:
    x.untyped_storage().resize_(0)
    return x


# What becomes of an argument, and what its refusal says; None for one that runs at once.
CHANGES: dict[str, tuple[Callable[[Tensor], Any], str | None]] = {
    "nothing": (lambda x: x, None),
    "an offset": (lambda x: torch.cat([x, x])[2:6], None),
    "numpy's": (lambda x: x.numpy(), None),
    "double": (lambda x: x.double(), "must have dtype float32, found float64"),
    "int32": (lambda x: x.to(torch.int32), "must have dtype float32, found int32"),
    "bfloat16": (lambda x: x.bfloat16(), "must have dtype float32, found bfloat16"),
    "flat": (lambda x: x.flatten(), r"must have shape \(4, 6\), found \(24,\)"),
    "transposed": (lambda x: x.T, "must be contiguous"),
    "turned": (lambda x: x.T.contiguous().T, "must be contiguous"),
    "every other": (lambda x: torch.zeros(4, 12)[:, ::2], "must be contiguous"),
    "repeated": (lambda x: x[:1].expand(SHAPE), "must be contiguous"),
    "a gradient": (
        lambda x: x.clone().requires_grad_(),
        r"requires grad. Use tensor\.detach\(\).numpy\(\) instead$",
    ),
    "a parameter": (lambda x: torch.nn.Parameter(x), r"gradient, use tensor\.detach\(\)$"),
    "a sign apart": (torch._neg_view, r"negative bit.* Use tensor\.resolve_neg\(\).* instead$"),
    "meta": (
        lambda x: x.to("meta"),
        "cannot be viewed in host memory: .*; copy it to a NumPy array first$",
    ),
    "sparse": (
        lambda x: x.to_sparse(),
        "cannot be viewed in host memory: .*; copy it to a NumPy array first$",
    ),
    "freed": (lambda x: freed(x.clone()), r"storage is empty; use tensor\.untyped_storage\(\)"),
    "freed, behind an offset": (
        lambda x: freed(torch.cat([x, x])[2:6]),
        r"storage is empty; use tensor\.untyped_storage\(\).resize_$",
    ),
    "odd address": (odd, "must start at a multiple of 4 bytes"),
}


@pytest.mark.parametrize("position", range(3))
def test_what_runs_at_once_passes_every_check(position: int) -> None:
    kernel = add_kernel()
    kernel(*tensors())
    assert not learn_tensors(tensors())  # they are known since that call
    for name, (change, refusal) in CHANGES.items():
        given: list[Any] = tensors()
        given[position] = change(given[position])
        status = kernel.quick(tuple(given))
        assert (status == UNFIT) == (refusal is not None), name
        if refusal is not None:
            with pytest.raises(MeasureError, match=rf"\({'ABC'[position]}\).*{refusal}"):
                kernel(*given)
            assert kernel.quick(tuple(tensors())) == 0  # no error of Python's is left behind
        else:
            a, b, c = map(np.asarray, given)
            np.testing.assert_array_equal(c, a + b, err_msg=name)


def test_an_output_shares_nothing_with_an_input() -> None:
    kernel = add_kernel()
    a, b, _ = tensors()
    whole = torch.zeros(60)
    out, touching = whole[:24].reshape(SHAPE), whole[24:48].reshape(SHAPE)
    kernel(a, touching, out)
    assert torch.equal(out, a)
    for given in ((a, b, a), (a, whole[23:47].reshape(SHAPE), out)):
        assert kernel.quick(given) == UNFIT
        with pytest.raises(MeasureError, match=r"\(C\) is written by the kernel but shares"):
            kernel(*given)


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float16", "bfloat16", "int8", "int64", "uint8", "float8_e4m3fn", "float8_e5m2"],
)
def test_types_are_told_apart(dtype: str) -> None:
    kernel = add_kernel(dtype)
    a, b, c = tensors(getattr(torch, dtype))
    kernel(a, b, c)
    assert kernel.quick((a, b, c)) == 0
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    wanted = [x.double().numpy().astype(kind) for x in (a, b)]
    np.testing.assert_array_equal(c.double().numpy(), (wanted[0] + wanted[1]).astype(float))
    c.zero_()
    kernel(A=a, B=b, C=c)  # the slower way
    np.testing.assert_array_equal(c.double().numpy(), (wanted[0] + wanted[1]).astype(float))
    bits = a.view(getattr(torch, f"uint{kind.itemsize * 8}"))
    assert kernel.quick((bits, b, c)) == (0 if dtype == "uint8" else UNFIT)


def test_a_tensor_of_another_kind_is_asked_in_python() -> None:
    class Mine(torch.Tensor):  # type: ignore[misc, name-defined]  # of Any, without PyTorch
        pass

    kernel = add_kernel()
    a, b, c = tensors()
    kernel(a, b, c)
    given = a.as_subclass(Mine), b, c
    assert kernel.quick(given) == UNFIT
    kernel(*given)
    assert torch.equal(c, a + b)
    assert isinstance(kernel(a, b), np.ndarray)


@pytest.mark.skipif(linker() is None, reason="no C compiler links here")
def test_an_exported_module_takes_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export([record(matmul(8))], tmp_path, ExportOptions(name="torch_matmul"))
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = importlib.import_module("torch_matmul").matmul
    a, b, c = (torch.ones(shape) for shape in ((8, 16), (16, 32), (8, 32)))
    for _ in range(2):  # the first call tells it of PyTorch
        assert kernel(a, b, c.zero_()) is None
        assert torch.equal(c, a @ b)
    assert kernel._quick((a, b, c)) == 0
    with pytest.raises(ValueError, match=r"\(A\) .*requires grad"):
        kernel(a.requires_grad_(), b, c)
