from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.stmt import TRUE, Allocate, BufferStore, For, ForKind, Stmt, seq
from autosched.transform.storage.liveness import linear_access
from autosched.transform.storage.storage_plan import Block, plan_storage
from kit.stmts import loop
from kit.tir import value_of

A = decl_buffer((64,), "float32", "A")
i = Var("i")


def chain(*buffers: Buffer) -> Stmt:
    """Each buffer is filled from two elements of the one before it."""
    body, previous = [], A
    for b in buffers:
        body.append(loop(i, 4, BufferStore(b, previous[i] + previous[3 - i], (i,))))
        previous = b
    body.append(loop(i, 4, BufferStore(A, previous[i], (i,))))
    result = seq(*body)
    for b in reversed(buffers):
        result = Allocate(b.data, b.dtype, b.shape, TRUE, result)
    return result


def plan(body: Stmt, reuse: bool = True) -> tuple[list[list[str]], list[Block]]:
    blocks = plan_storage(linear_access(body), reuse=reuse)
    return [[a.buffer_var.name for a in b.allocations] for b in blocks], blocks


def buffers(*sizes: int) -> list[Buffer]:
    return [decl_buffer((n,), "float32", f"T{k}") for k, n in enumerate(sizes)]


def test_a_chain_needs_two_blocks() -> None:
    names, blocks = plan(chain(*buffers(8, 8, 8, 8)))
    assert names == [["T0", "T2"], ["T1", "T3"]]
    assert [b.attach for b in blocks] == [None, None]


def test_a_larger_block_is_preferred_then_a_smaller_one_grows() -> None:
    names, blocks = plan(chain(*buffers(32, 16, 64, 16)))
    assert names == [["T0", "T2"], ["T1", "T3"]]
    assert [value_of(b.extents()[0]) for b in blocks] == [64, 16]


def test_no_reuse() -> None:
    names, _ = plan(chain(*buffers(8, 8, 8)), reuse=False)
    assert names == [["T0"], ["T1"], ["T2"]]


def test_memory_of_a_parallel_loop_is_its_own() -> None:
    outer, inner = chain(*buffers(8, 8)), chain(*buffers(8, 8, 8))
    parallel = For(Var("p"), IntImm(0), IntImm(2), ForKind.PARALLEL, inner)
    names, blocks = plan(seq(outer, parallel))
    assert names == [["T0"], ["T1"], ["T0", "T2"], ["T1"]]
    assert [b.attach for b in blocks] == [None, None, parallel, parallel]
