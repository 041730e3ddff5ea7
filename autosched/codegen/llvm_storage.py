"""Storage inside a function: the stack, the runtime's workspace, constants.

Allocations of constant size live for the whole function: on the stack while there is room, else in
workspace that the prologue allocates. The stack goes first to allocations that LLVM turns into
registers (the accumulators of a reduction among them), then to small ones. An allocation whose size
is only known at run time is made where it stands.
"""

from __future__ import annotations

from collections.abc import Iterator

from autosched.codegen.llvm_builder import FunctionBuilder, StmtFn
from autosched.codegen.llvm_masks import near_arrays
from autosched.codegen.llvm_types import memory_type
from autosched.errors import CompileError
from autosched.tir.dtype import int64
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import POINTER, bits_of, exprs_with
from autosched.tir.op import cast, const
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    Prefetch,
    Stmt,
)
from autosched.tir.walk import child_stmts, map_children, stmts
from autosched.transform.host.lower_tvm_builtin import KEEP, MOST_ON_STACK

STACK_BYTES = 64 * 1024
"""Most bytes of one function's arrays that are on the stack.

Threads of another program that calls a kernel may have 128 KiB only, which is what musl gives them.
"""

BESIDE_LOOPS = STACK_BYTES // 2
"""STACK_BYTES for a function with parallel loops.

The thread that calls it has the arrays of a loop's body on its stack, too.
"""

REGISTER_BYTES = 512 * 1024
"""STACK_BYTES for arrays that become registers: they take stack only where LLVM lacks registers."""

ALLOC, FREE = "autosched_workspace_alloc", "autosched_workspace_free"
OUT_OF_MEMORY = -1


def prologue(b: FunctionBuilder, body: Stmt) -> None:
    """Allocates the memory of constant size that `body` needs outside of its parallel loops."""
    sizes: dict[Allocate, int] = {}
    for stmt in _allocations(body, b.inside_parallel):
        size = stmt.constant_bytes
        if size is not None:
            sizes[stmt] = size
    addressed = b.module.addressed() if sizes else set()
    b.unmasked = near_arrays(sizes, addressed)
    beside = not b.inside_parallel and any(_is_parallel(s) for s in stmts(body))
    on_stack = _on_stack(sizes, addressed, BESIDE_LOOPS if beside else STACK_BYTES)
    for stmt, size in sizes.items():
        if stmt in on_stack:
            kind = memory_type(stmt.dtype.element)
            count = max(1, size // stmt.dtype.bytes)
            name = b.fresh("stack")
            b.allocas.append(f"  {name} = alloca [{count} x {kind}], align 64")
        else:
            name = _workspace_or_leave(b, str(size))[0]
        b.pointers[stmt.buffer_var] = name


def _on_stack(sizes: dict[Allocate, int], addressed: set[Var], most: int) -> set[Allocate]:
    """The allocations that are on the stack.

    `sizes` has the bytes of each allocation. `most` is the room for those that do not become
    registers.
    """
    if sum(sizes.values()) <= most:
        return set(sizes)
    chosen: set[Allocate] = set()
    for room, registers in ((REGISTER_BYTES, True), (most, False)):
        group = [s for s in sizes if (s.buffer_var not in addressed) is registers]
        for stmt in sorted(group, key=sizes.__getitem__):
            room -= sizes[stmt]
            if room < 0:
                break
            chosen.add(stmt)
    return chosen


def computed_addresses(body: Stmt) -> set[Var]:
    """Pointers used other than in plain loads and stores of constant elements.

    The memory behind all other pointers becomes registers: LLVM's SROA splits it into one register
    for each access.
    """
    found: set[Var] = set()

    def access(place: BufferLoad | BufferStore) -> None:
        if place.predicate is not None or not all(map(_is_constant, place.indices)):
            found.add(place.buffer.data)

    for stmt in stmts(body):
        if isinstance(stmt, BufferStore):
            access(stmt)
        elif isinstance(stmt, Prefetch):
            found.add(stmt.buffer.data)
    for e in exprs_with(body, bits_of(BufferLoad, Call) | POINTER):
        if isinstance(e, BufferLoad):
            access(e)
        elif isinstance(e, Call) and e.op == "address_of":
            found.update(a.buffer.data for a in e.args if isinstance(a, BufferLoad))
        elif isinstance(e, Var) and e.dtype.is_handle:
            found.add(e)
    return found


def keep_registers(func: PrimFunc) -> PrimFunc:
    """`func` with allocations marked to stay that are small or become registers.

    LowerTVMBuiltin leaves marked allocations to the stack; without a mark it does so for small
    global memory.
    """
    return func.with_body(_keep_registers(func.body, computed_addresses(func.body)))


def _keep_registers(s: Stmt, addressed: set[Var]) -> Stmt:
    s = map_children(s, lambda child: _keep_registers(child, addressed))
    size = s.constant_bytes if isinstance(s, Allocate) else None
    if not isinstance(s, Allocate) or size is None:
        return s
    most = MOST_ON_STACK - 1 if s.buffer_var in addressed else REGISTER_BYTES
    return s if size > most else s.with_(annotations={**s.annotations, KEEP: True})


def _is_constant(index: Expr) -> bool:
    match index:
        case Ramp(base, IntImm(1), _):
            return isinstance(base, IntImm)
    return isinstance(index, IntImm)


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL


def _allocations(stmt: Stmt, inside_parallel: bool) -> Iterator[Allocate]:
    if _is_parallel(stmt) and not inside_parallel:
        return
    if isinstance(stmt, AttrStmt) and stmt.key == "compute_scope":
        return
    if isinstance(stmt, Allocate):
        yield stmt
    for child in child_stmts(stmt):
        yield from _allocations(child, inside_parallel)


def workspace(b: FunctionBuilder, size: str) -> tuple[str, str]:
    """Allocates `size` bytes (i64); returns the pointer, null without memory, and its slot.

    The slot holds the pointer while it must be freed at the function's exit.
    """
    slot = b.fresh("slot")
    b.allocas.append(f"  {slot} = alloca ptr")
    b.allocas.append(f"  store ptr null, ptr {slot}")
    b.slots.append(slot)
    b.module.declare(ALLOC, "noalias ptr @(i64)")
    b.module.declare(FREE, "void @(ptr)")
    pointer = b.emit(f"call noalias align 64 ptr @{ALLOC}(i64 {size})")
    b.line(f"store ptr {pointer}, ptr {slot}")
    return pointer, slot


def _workspace_or_leave(b: FunctionBuilder, size: str) -> tuple[str, str]:
    """`workspace`, but the function is left if there is no memory."""
    pointer, slot = workspace(b, size)
    missing = b.emit(f"icmp eq ptr {pointer}, null")
    failed, passed = b.new_block("failed"), b.new_block("allocated")
    b.branch(f"br i1 {missing}, label %{failed.label}, label %{passed.label}")
    failed.lines.append(f"  store i32 {OUT_OF_MEMORY}, ptr %status")
    failed.terminator = "br label %exit"
    b.resume(passed)
    return pointer, slot


def allocate(b: FunctionBuilder, stmt: Allocate, statement: StmtFn) -> None:
    """Writes the body of an allocation, and the allocation itself if its size is not constant."""
    if isinstance(stmt.condition, IntImm) and not stmt.condition.value:
        raise CompileError(
            f"the condition of the allocation of {stmt.buffer_var.name} is never true"
        )
    if stmt.buffer_var in b.pointers:
        statement(b, stmt.body)
        return
    elements: Expr = const(1, int64)
    for extent in stmt.extents:
        elements = elements * cast(int64, extent)
    size = b.value(elements * stmt.dtype.value_bytes)
    b.at = b.inner
    pointer, slot = _workspace_or_leave(b, size)
    b.bind(stmt.buffer_var, pointer)
    statement(b, stmt.body)
    b.at = b.inner
    b.line(f"call void @{FREE}(ptr {pointer})")
    b.line(f"store ptr null, ptr {slot}")


def epilogue(b: FunctionBuilder) -> list[str]:
    """The lines of the exit block that free what is still allocated."""
    lines = []
    for slot in b.slots:
        pointer = b.fresh("left")
        lines.append(f"  {pointer} = load ptr, ptr {slot}")
        lines.append(f"  call void @{FREE}(ptr {pointer})")
    return lines


def allocate_const(b: FunctionBuilder, stmt: AllocateConst) -> None:
    """A constant array in read-only memory."""
    data = stmt.data.astype(stmt.dtype.element.numpy, copy=False).tobytes()
    name = f"@const.{len(b.module.globals)}"
    text = "".join(f"\\{byte:02X}" for byte in data)
    b.module.globals.append(f'{name} = private constant [{len(data)} x i8] c"{text}", align 64')
    b.pointers[stmt.buffer_var] = name
