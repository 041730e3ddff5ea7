"""Verifies that functions are well formed: invariants that every pass may rely on and must keep.

Fields have their declared types; a variable is not bound again inside its binding, and used only
there; types and vector lanes of operands agree; stores fit their buffer; a PrimFunc has no accesses
to tensors.
"""

from __future__ import annotations

from autosched.arguments import found
from autosched.errors import AutoschedError
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_negative, is_whole
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import (
    And,
    BinaryExpr,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IterVar,
    Let,
    Mod,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    Sub,
    Var,
)
from autosched.tir.field_types import wrong_field
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import EFFECTS
from autosched.tir.printer import to_text
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
)
from autosched.tir.walk import child_stmts, direct_exprs, free_vars

_OF_NUMBERS = (Sub, Div, Mod, FloorDiv, FloorMod)
"""The operations that bools do not have; their sum is `or`, their product `and`, as in NumPy."""


class VerifyError(AutoschedError):
    """The IR is not well formed: a bug of the pass that made it, not of the user's schedule."""


def verify(func: PrimFunc) -> None:
    """Raise VerifyError, with the statement as a note, unless `func` is well formed."""
    checker = _Checker()
    for param in func.params:
        checker.bind(param)
    for buffer in func.buffer_map.values():
        checker.declare(buffer, sizes_bound=True)
    checker.stmt(func.body)


def _unprintable(message: str, where: str) -> VerifyError:
    error = VerifyError(message)
    error.add_note(f"in the statement\n{where}")
    return error


class _Checker:
    """Walks statements with the set of variables that are bound, and of expressions checked."""

    def __init__(self) -> None:
        self._bound: set[Var] = set()
        self._checked: set[Expr] = set()

    # -- bindings

    def bind(self, var: Var) -> None:
        if var in self._bound:
            raise VerifyError(f"variable {var.name} is bound inside its own scope")
        self._bound.add(var)

    def unbind(self, var: Var) -> None:
        self._bound.discard(var)
        self._checked.clear()  # expressions that were checked may mention `var`

    def declare(self, buffer: Buffer, sizes_bound: bool = False) -> None:
        """Bind the buffer's pointer and, for a parameter (`sizes_bound`), its symbolic sizes."""
        if any(map(is_negative, buffer.shape)):
            raise VerifyError(f"buffer {buffer.name} has a negative size")
        self._bound.add(buffer.data)
        for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(size, Expr) and sizes_bound:
                self._bound |= free_vars(size)

    # -- statements

    def stmt(self, stmt: Stmt) -> None:
        try:
            self._stmt(stmt)
        except VerifyError as error:
            if not getattr(error, "__notes__", None):
                error.add_note("in the statement\n" + to_text(stmt))
            raise

    def _stmt(self, stmt: Stmt) -> None:
        if not isinstance(stmt, Stmt):
            raise _unprintable(f"expected a statement, {found(stmt)}", "the body of a function")
        problem = wrong_field(stmt)
        if problem:
            raise _unprintable(problem, type(stmt).__name__)
        match stmt:
            case SeqStmt(parts):
                if len(parts) < 2 or any(isinstance(p, SeqStmt) for p in parts):
                    raise VerifyError("a sequence holds one statement or another sequence")
                for part in parts:
                    self.stmt(part)
            case BlockRealize():
                for e in (*stmt.iter_values, stmt.predicate):
                    self.expr(e)
                self.stmt(stmt.block)
            case Block():
                self._block(stmt)
            case ProducerStore() | ProducerRealize():
                raise VerifyError(f"{type(stmt).__name__} of {stmt.producer.name} in a function")
            case _:
                for e in direct_exprs(stmt):
                    self.expr(e)
                self._own_rules(stmt)
                bound = self._binding(stmt)
                for child in child_stmts(stmt):
                    self.stmt(child)
                for var in bound:
                    self.unbind(var)

    def _own_rules(self, stmt: Stmt) -> None:
        match stmt:
            case BufferStore():
                self._access(stmt.buffer, stmt.indices)
                lanes = stmt.indices[-1].dtype.lanes if stmt.indices else 1
                wanted = stmt.buffer.dtype.with_lanes(stmt.buffer.dtype.lanes * lanes)
                if stmt.value.dtype is not wanted:
                    raise VerifyError(
                        f"a value of type {stmt.value.dtype} is stored in {stmt.buffer.name}, "
                        f"which takes {wanted}"
                    )
            case LetStmt(var, value) if var.dtype is not value.dtype:
                raise VerifyError(f"{var.name} is {var.dtype}, its value {value.dtype}")
            case DeclBuffer(buffer):
                if buffer.data not in self._bound:
                    raise VerifyError(
                        f"buffer {buffer.name} is declared over memory that nothing allocates"
                    )
                for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                    if size is not None:
                        self.expr(size)
            case For() if stmt.extent.dtype is not stmt.loop_var.dtype:
                raise VerifyError(
                    f"loop variable {stmt.loop_var.name} is {stmt.loop_var.dtype}, "
                    f"its extent {stmt.extent.dtype}"
                )
            case For() if not is_whole(stmt.extent):
                raise VerifyError(
                    f"loop variable {stmt.loop_var.name} is {stmt.loop_var.dtype}, no integer"
                )
            case IfThenElse() | While() if stmt.condition.dtype is not bool_:
                raise VerifyError(f"the condition {stmt.condition!r} is {stmt.condition.dtype}")
            case Allocate() if any(map(is_negative, stmt.extents)):
                raise VerifyError(f"{stmt.buffer_var.name} is allocated with a negative size")

    def _binding(self, stmt: Stmt) -> tuple[Var, ...]:
        """Bind the variables that `stmt` binds for its body, and return them."""
        var: Var
        match stmt:
            case LetStmt(var):
                pass
            case For():
                var = stmt.loop_var
            case Allocate() | AllocateConst():
                var = stmt.buffer_var
            case BufferRealize(buffer):
                if buffer.data in self._bound:
                    return ()
                var = buffer.data
            case AttrStmt(IterVar() as iv, "thread_extent" | "virtual_thread"):
                if iv.var in self._bound:
                    return ()
                var = iv.var
            case _:
                return ()
        self.bind(var)
        return (var,)

    def _block(self, block: Block) -> None:
        for iv in block.iter_vars:
            for e in () if iv.dom is None else (iv.dom.min, iv.dom.extent):
                self.expr(e)
        own = [iv.var for iv in block.iter_vars] + [b.data for b in block.alloc_buffers]
        for match in block.match_buffers:
            bound = (*match.variables(), match.buffer.data)
            own += [v for v in bound if v not in self._bound and v not in own]
        for var in own:
            self.bind(var)
        self._block_buffers(block)
        for child in child_stmts(block):
            self.stmt(child)
        for var in own:
            self.unbind(var)

    def _block_buffers(self, block: Block) -> None:
        """Check that the buffers and regions of a block mention bound variables only."""
        for buffer in (*block.alloc_buffers, *(m.buffer for m in block.match_buffers)):
            for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                if size is not None:
                    self.expr(size)
        sources = tuple(m.source for m in block.match_buffers)
        for region in (*block.reads, *block.writes, *sources):
            self._access(region.buffer, tuple(r.min for r in region.region))
            for r in region.region:
                self.expr(r.min)
                self.expr(r.extent)

    # -- expressions

    def expr(self, root: Expr) -> None:
        """Check an expression under the present bindings, unless that was done already."""
        if not isinstance(root, Expr):
            raise _unprintable(f"expected an expression, {found(root)}", "an expression")
        kind = type(root).__name__
        if not isinstance(root.dtype, DType):
            raise _unprintable(f"{kind}.dtype: expected a DType, {found(root.dtype)}", kind)
        if root in self._checked:
            return
        if isinstance(root, Let):
            self.expr(root.value)
            self.bind(root.var)
            self.expr(root.body)
            self.unbind(root.var)
            return
        if isinstance(root, Reduce):
            raise VerifyError(f"a reduction in a function: {root!r}")
        if isinstance(root, Call) and root.op == "address_of":
            self._address(root)
            return
        for child in root.children():
            self.expr(child)
        self._node(root)
        self._checked.add(root)

    def _address(self, call: Call) -> None:
        (load,) = call.args
        if not isinstance(load, BufferLoad):
            raise VerifyError(f"address_of takes a load, found {load!r}")
        self.expr(load)

    def _node(self, e: Expr) -> None:
        match e:
            case Var():
                if e not in self._bound:
                    raise VerifyError(f"variable {e.name} is used outside of its binding")
            case BinaryExpr(a, b):
                if a.dtype is not b.dtype:
                    raise VerifyError(
                        f"operands of different types, {a.dtype} and {b.dtype}, in {e!r}"
                    )
                if a.dtype.is_bool and isinstance(e, _OF_NUMBERS):
                    raise VerifyError(f"{type(e).__name__} of truth values in {e!r}")
                if isinstance(e, And | Or) and not a.dtype.is_bool:
                    raise VerifyError(f"{e.symbol} of {a.dtype} in {e!r}")
            case Not(a):
                if not a.dtype.is_bool:
                    raise VerifyError(f"not of {a.dtype} in {e!r}")
            case Select(condition, a, b):
                lanes = condition.dtype.lanes
                fits = condition.dtype.is_bool and lanes in (1, a.dtype.lanes)
                if a.dtype is not b.dtype or not fits:
                    raise VerifyError(
                        f"Select of {condition.dtype}, {a.dtype} and {b.dtype} in {e!r}"
                    )
            case Ramp(base, stride, lanes):
                if base.dtype is not stride.dtype or base.dtype.lanes != 1 or lanes < 2:
                    raise VerifyError(f"a ramp of {base.dtype}, {stride.dtype} in {e!r}")
            case Broadcast(value, lanes):
                if value.dtype.lanes != 1 or lanes < 2:
                    raise VerifyError(f"a broadcast of {value.dtype} to {lanes} lanes in {e!r}")
            case BufferLoad(buffer, indices):
                self._access(buffer, indices)
            case ProducerLoad(producer):
                raise VerifyError(f"a read of tensor {producer.name} in a function")
            case Call(op):
                if op not in EFFECTS:
                    raise VerifyError(f"unknown intrinsic {op} in {e!r}")

    def _access(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        if buffer.data not in self._bound:
            raise VerifyError(f"buffer {buffer.name} is accessed outside of its allocation")
        if len(indices) != len(buffer.shape):
            raise VerifyError(
                f"{buffer.name} has {len(buffer.shape)} dimensions, accessed with {len(indices)}"
            )
        for index in indices:
            if not index.dtype.is_int and index.dtype.code != "uint":
                raise VerifyError(f"{buffer.name} is indexed by {index.dtype}: {index!r}")
        for index in indices[:-1]:
            if index.dtype.lanes != 1:
                raise VerifyError(f"{buffer.name}: only the last index may be a vector")
