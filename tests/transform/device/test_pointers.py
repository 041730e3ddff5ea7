"""Every place that names a pointer gets the other one."""

from __future__ import annotations

from autosched.tir.expr import IntImm, pointer
from autosched.tir.parser import parse_func
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, DeclBuffer
from autosched.tir.verify import verify
from autosched.tir.walk import stmts
from autosched.transform.device.pointers import replace_pointers

TEXT = """\
def main(A: Buffer((4,), float32)):
    launch(threadIdx.x, 4)
    S = allocate((8,), float32, "shared")
    T = declare(S, (4,), float32, elem_offset=4)
    S[threadIdx.x] = A[threadIdx.x]
    T[threadIdx.x] = S[threadIdx.x]
    call_extern("f", S, address_of(T[0]), dtype=int32)
    A[threadIdx.x] = T[threadIdx.x]
"""


def test_everything_that_names_a_pointer() -> None:
    func = parse_func(TEXT)
    (memory,) = [s for s in stmts(func.body) if isinstance(s, Allocate)]
    buffers = {s.buffer for s in stmts(func.body) if isinstance(s, BufferStore | DeclBuffer)}
    nodes = [memory.buffer_var, *(b for b in buffers if b.data is memory.buffer_var)]
    body = memory.body
    for node in nodes:
        body = AttrStmt(node, "volatile_scope", IntImm(1), body)
    assert isinstance(func.body, AttrStmt)
    func = func.with_body(func.body.with_(body=memory.with_(body=body)))
    new = pointer("S", memory.dtype, "shared.dyn")
    after = replace_pointers(func.body, {memory.buffer_var: new})
    changed = func.with_body(after)
    verify(changed)  # nothing names what is not allocated
    assert repr(changed) == repr(func).replace('"shared"', '"shared.dyn"')


def test_other_pointers_stay() -> None:
    func = parse_func(TEXT)
    assert replace_pointers(func.body, {}) is func.body
