"""What AMX's products compute, against the processor where the system lets it be used."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.codegen.llvm import assembly, emit_llvm
from autosched.codegen.llvm_host import emit_host
from autosched.driver import build_func, build_host, lower
from autosched.errors import MeasureError
from autosched.runtime.cpu import load
from autosched.runtime.host import load_host, prepared
from autosched.target import cpu_target
from autosched.te.intrin.registry import available, instruction, statements
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.interp import run
from autosched.tir.tiles import CONFIGURE, DOTS, LOAD, Tiles
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import host_pipeline

NAMES = [f"amx.{call.rpartition('.')[2]}" for call in DOTS]


def _tile(name: str) -> PrimFunc:
    """C = A * B of one tile each, over two steps of the reduction."""
    it = instruction(name)
    depth, group, dtype = it.extent("k"), 4 // it.a.dtype.bytes, it.c.dtype.name
    a = te.placeholder((16, 2 * depth), it.a.dtype.name, "a")
    b = te.placeholder((2, 1, 16, 16 * group), it.b.dtype.name, "b")
    ko, ki = te.reduce_axis((0, 2), "ko"), te.reduce_axis((0, depth), "ki")
    c = te.compute(
        (1, 1, 16, 16),
        lambda mt, nt, m, n: te.sum(
            a[mt * 16 + m, ko * depth + ki].astype(dtype)
            * b[ko, nt, ki // group, n * group + ki % group].astype(dtype),
            axis=[ko, ki],
        ),
        "c",
    )
    d = te.compute((16, 16), lambda m, n: c[m // 16, n // 16, m % 16, n % 16], "d")
    s = te.create_schedule(d.op)
    s[c].tensorize(c.op.axis[0], statements(name)["compute.1x1"])
    s[d].tensorize(d.op.axis[0], statements(name)["store.1x1"])
    return lower(s, [a, b, d], cpu_target(1))


@pytest.mark.parametrize("name", NAMES)
def test_computes_its_description(name: str) -> None:
    """NumPy equals the interpreter, the processor the interpreter bit for bit; it is emitted."""
    it, func = instruction(name), _tile(name)
    rng = np.random.default_rng(0)
    depth, group = it.extent("k"), 4 // it.a.dtype.bytes
    shapes = (16, 2 * depth), (2, 1, 16, 16 * group)
    if it.a.dtype.is_float:  # exponents of all kinds: sums that are denormal, too
        a, b = (
            (rng.standard_normal(s) * 2.0 ** rng.integers(-70, 40, s)).astype(it.a.dtype.numpy)
            for s in shapes
        )
    else:
        a, b = (
            rng.integers(int(t.min_value), int(t.max_value) + 1, s).astype(t.numpy)
            for t, s in zip(it.types[:2], shapes, strict=True)
        )
    found = np.zeros((16, 16), it.c.dtype.numpy)
    run(func, [a, b, found])
    columns = b.astype(np.float64).reshape(2, 16, 16, group).transpose(0, 1, 3, 2).reshape(-1, 16)
    expected = a.astype(np.float64) @ columns
    scale = np.abs(a.astype(np.float64)) @ np.abs(columns)
    error = np.abs(found - expected)
    assert (error <= (scale * 2.0**-20 if it.a.dtype.is_float else 0)).all()
    here = cpu_target(1)
    text = assembly(emit_llvm(func, here), here) if it in available(here) else ""
    assert not text or it.name.partition(".")[2] in text
    if text:
        try:
            result = load(build_func(func, here))(a, b)
        except MeasureError as refused:
            assert "tiles" in str(refused)  # the system keeps them
        else:
            np.testing.assert_array_equal(result, found)


def test_host_functions_ask_for_tiles() -> None:
    """The first instruction of AMX ended a process in which no kernel had asked before."""
    func, name = _tile("amx.tdpbssd"), "multiply"
    module, _ = prepared(IRModule({name: func.with_attrs(global_symbol=name)}))
    text = emit_host(Sequential(host_pipeline("cpu"), "host")(module), cpu_target(1))
    entry = text.partition(f"define i32 @{name}(")[2]
    assert 0 < entry.index("syscall") < entry.index(f"call void @{name}.body")
    if instruction("amx.tdpbssd") in available(cpu_target(1)):
        a, b = np.ones((16, 128), np.int8), np.ones((2, 1, 16, 64), np.int8)
        c = np.zeros((16, 16), np.int32)
        try:
            load_host(build_host(func, cpu_target(1)))(a, b, c)
        except MeasureError as refused:
            assert "tiles" in str(refused)  # the system keeps them
        else:
            assert (c == 128).all()


def test_wrong_use_is_told() -> None:
    tiles = Tiles()
    with pytest.raises(RuntimeError, match=r"no tiles are in use; call llvm\.x86\.ldtilecfg first"):
        tiles.call("llvm.x86.tilezero", [0])
    tiles.call(CONFIGURE, [])

    class Memory:
        def array(self, thread: int) -> np.ndarray:
            return np.zeros(100, np.uint8)

    with pytest.raises(RuntimeError, match="16 rows 64 bytes apart reaches beyond memory of 100"):
        tiles.call(LOAD, [0, Memory(), 64])
