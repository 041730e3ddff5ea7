"""Which functions take packed arguments, and what is checked of them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from autosched.errors import CompileError
from autosched.tir.function import IRModule
from autosched.tir.interp_packed import run_packed
from autosched.tir.parser import parse_func, parse_module
from autosched.tir.stmt import AssertStmt
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.framework.passes import Sequential
from autosched.transform.host.bind_target import BindTarget
from autosched.transform.host.make_packed_api import MakePackedAPI
from kit.modules import run_module

PACK = Sequential((BindTarget(), MakePackedAPI()))

# The checks of document 003 of the seeds on `main(A, B)`, word for word; those of B are the same
# but for the device, which must be A's.
SEED = """\
main: num_args should be 2
main: TVMValue* arg pointer was NULL
main: int* type_codes was NULL
main: Expect arg[0] to be pointer
main: Expect arg[1] to be pointer
main.A_handle is expected to have non-NULL DLTensor* pointer
main.A_handle.ndim is expected to equal 1
main.B_handle is expected to have non-NULL DLTensor* pointer
main.B_handle.ndim is expected to equal 1
main.A_handle.dtype is expected to be float32
Argument main.A_handle.shape[0] has an unsatisfied constraint: \
16 == T.Cast("int32", main_A_handle_shape[0])
main.A_handle.strides: expected to be compact array
Argument main.A_handle.byte_offset has an unsatisfied constraint: \
T.uint64(0) == T.tvm_struct_get(A_handle, 0, 8, "uint64")
Argument main.A_handle.device_type has an unsatisfied constraint: \
1 == T.tvm_struct_get(A_handle, 0, 10, "int32")
main.A_handle is expected to have non-NULL data pointer
main.B_handle.dtype is expected to be float32
Argument main.B_handle.shape[0] has an unsatisfied constraint: \
16 == T.Cast("int32", main_B_handle_shape[0])
main.B_handle.strides: expected to be compact array
Argument main.B_handle.byte_offset has an unsatisfied constraint: \
T.uint64(0) == T.tvm_struct_get(B_handle, 0, 8, "uint64")
Argument main.B_handle.device_type has an unsatisfied constraint: \
1 == T.tvm_struct_get(B_handle, 0, 10, "int32")
Argument main.B_handle.device_id has an unsatisfied constraint: \
dev_id == T.tvm_struct_get(B_handle, 0, 9, "int32")
main.B_handle is expected to have non-NULL data pointer
"""

COPY = """\
def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
    for i in range(16):
        B[i] = A[i] * 2.0
"""


def ours(text: str) -> str:
    """A message of TVMScript in our words: types as functions, pointers named with a dot."""
    text = re.sub(r'T\.Cast\("(\w+)", (.*)\)', r"\1(\2)", text)
    text = re.sub(r'(tvm_struct_get\(.*), "(\w+)"\)', r"\1, dtype=\2)", text)
    return re.sub(r"main_(\w)_handle_shape", r"\1_handle.shape", text).replace("T.", "")


def messages(text: str) -> list[str]:
    after = PACK(parse_func(text))
    verify(after)
    assert repr(parse_func(repr(after))) == repr(after)
    return [s.message for s in stmts(after.body) if isinstance(s, AssertStmt)]


def test_the_checks_are_those_of_the_seed_in_its_order() -> None:
    assert messages(COPY) == list(map(ours, SEED.splitlines()))


def test_only_exported_functions_with_a_host_change() -> None:
    module = parse_module(
        COPY
        + """\

def private(n: int32):
    attrs(global_symbol=None)
    evaluate(1)

def kernel(n: int32):
    attrs(calling_conv=2, target="cuda")
    evaluate(1)

def device(n: int32):
    attrs(target="cuda")
    evaluate(1)
"""
    )
    bound = BindTarget()(module)
    bound = IRModule({**bound.functions, "device": module["device"], "kernel": module["kernel"]})
    after = MakePackedAPI()(bound)
    changed = [name for name in after.functions if after[name] is not bound[name]]
    assert changed == ["main"]
    assert MakePackedAPI()(after) is after
    assert after["main"].attrs["target"] == "cpu" and after["main"].buffer_map == {}


def test_calls_of_functions_that_change() -> None:
    module = parse_module("""\
def main(n: int32):
    ret(call_extern("other", n, dtype=int32) + call_extern("outside", n, dtype=int32))

def other(n: int32):
    ret(n)
""")
    after = repr(PACK(module)["main"])
    assert 'call_cpacked("other", n, reinterpret(uint64(0), dtype=handle), dtype=int32)' in after
    assert 'call_extern("outside", n, dtype=int32)' in after


def test_a_pointer_is_no_array() -> None:
    module = parse_module("""\
def main(A: Buffer((4,), float32)):
    call_extern("other", A, dtype=int32)

def other(A: Buffer((4,), float32)):
    A[0] = 1.0
""")
    with pytest.raises(CompileError, match=r"other takes the array A; pass tvm_stack_make_array"):
        PACK(module)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "def main(n: int32):\n    attrs(target=None)\n    ret(n)",
            "main has no attribute `target`",
        ),
        (
            "def main(n: int32):\n    for i in parallel(n):\n        ret(i)",
            r"main: ret\(i\) in a parallel loop",
        ),
        (
            "def main[n: int32](A: Buffer((n * 2,), float32)):\n    A[n] = 1.0",
            "main: n not passed in as API arguments",
        ),
        (
            "def main(A: Buffer((4,), float32), B: Buffer((2,), float32, data=A)):\n    A[0] = 1.0",
            "A is the pointer of two parameters",
        ),
    ],
)
def test_refused(text: str, error: str) -> None:
    func = parse_func(text)
    passes = MakePackedAPI() if "target" in func.attrs else PACK
    with pytest.raises(CompileError, match=error):
        passes(func)


def test_a_variable_is_defined_once_and_checked_wherever_it_stands_again() -> None:
    strided = "Buffer((n, n), float32, strides=(n, n), elem_offset=n, offset_factor=2)"
    found = messages(f"def main(n: int32, A: {strided}):\n    ret(n)")
    again = [m.split(" has")[0] for m in found if m.startswith("Argument")]
    parts = ("shape[0]", "shape[1]", "strides[1]", "strides[0]", "elem_offset", "device_type")
    assert again == [f"Argument main.A_handle.{part}" for part in parts]


def test_results_of_each_kind_and_the_resource_handle() -> None:
    head = "def main(x: {0}, device_api_context: handle):\n"
    text = head + "    if x == {0}({1}):\n        ret(x)\n    ret(7)"
    for kind, value in (("int8", -3), ("float16", 0.5), ("bool", True), ("uint32", 2**32 - 1)):
        literal = value if kind != "bool" else "True"
        shown = text.format(kind, literal).replace("bool(True)", "True")
        after = PACK(parse_func(shown))
        assert "num_args == 1" in repr(after)
        found = run_packed(after, [value])
        assert found == value and type(found) is type(value)
    assert run_packed(PACK(parse_func(text.format("int8", 1))), [2]) == 7


@pytest.mark.parametrize("seed", range(4))
def test_random_signatures_compute_the_same(seed: int) -> None:
    """Arrays over shared sizes, with or without strides, and scalars, in any order."""
    rng = np.random.default_rng(seed)
    sizes = {"n": 3, "m": 5, "k": 1}
    params: list[str] = []
    args: list[Any] = []
    lines: list[str] = []
    for i in range(int(rng.integers(1, 5))):
        if rng.random() < 0.3:
            params.append(f"x{i}: float32")
            args.append(1.5)
            continue
        shape = [str(rng.choice(["n", "m", "k", "4"])) for _ in range(int(rng.integers(1, 4)))]
        dtype = str(rng.choice(["int32", "float32", "uint8"]))
        params.append(f"A{i}: Buffer(({', '.join(shape)},), {dtype})")
        args.append(np.ones([sizes.get(s, 4) for s in shape], dtype))
        zero = ", ".join("0" * len(shape))
        lines.append(f"    A{i}[{zero}] = A{i}[{zero}] + {dtype}({i})")
    names = ", ".join(
        f"{s}: int32" for s in sizes if f"({s}" in str(params) or f" {s}," in str(params)
    )
    text = f"def main{f'[{names}]' if names else ''}({', '.join(params)}):\n" + "\n".join(lines)
    before = parse_func(text + "\n    ret(5)")
    after = PACK(IRModule({"main": before}))
    others = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    assert run_module(IRModule({"main": before}), args) == run_module(after, others) == 5
    for a, b in zip(args, others, strict=True):
        np.testing.assert_array_equal(a, b)
