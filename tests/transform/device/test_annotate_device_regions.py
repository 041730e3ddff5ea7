"""Regions for a device, marked once each."""

from __future__ import annotations

from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import AttrStmt, Stmt
from autosched.tir.walk import stmts
from autosched.transform.device.annotate_device_regions import AnnotateDeviceRegions


def regions(func: PrimFunc) -> list[Stmt]:
    return [s.body for s in stmts(func.body) if isinstance(s, AttrStmt) and s.key == "target"]


def test_nested_axes_are_one_region() -> None:
    func = parse_func("""\
def main(A: Buffer((64,), float32)):
    launch(blockIdx.x, 2)
    for i in range(1):
        launch(threadIdx.x, 32)
        A[blockIdx.x * 32 + threadIdx.x] = 0.0
""")
    (region,) = regions(AnnotateDeviceRegions()(func))
    assert region is func.body


def test_regions_inside_what_the_host_allocates() -> None:
    func = parse_func("""\
def main(A: Buffer((64,), float32)):
    W = allocate((64,), float32, "global")
    with launch(threadIdx.x, 64):
        W[threadIdx.x] = A[threadIdx.x]
    launch(threadIdx.x_1, 64, tag="threadIdx.x")
    A[threadIdx.x_1] = W[threadIdx.x_1]
""")
    after = AnnotateDeviceRegions()(func)
    assert len(regions(after)) == 2
    assert AnnotateDeviceRegions()(after) is after


def test_another_kind_of_device_keeps_its_mark() -> None:
    func = parse_func("""\
def main(A: Buffer((64,), float32)):
    attr("other", "target", 0)
    launch(threadIdx.x, 64)
    A[threadIdx.x] = 0.0
""")
    assert AnnotateDeviceRegions()(func) is func


def test_code_for_the_cpu_has_no_region() -> None:
    func = parse_func("""\
def main(A: Buffer((64,), float32)):
    for i in range(64):
        A[i] = 0.0
""")
    assert AnnotateDeviceRegions()(func) is func
