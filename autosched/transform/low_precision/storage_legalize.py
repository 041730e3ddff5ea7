"""Storage of small floats as the integers of their bits, for BF16- and FP8StorageLegalize."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.conversion import const
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    Let,
    Select,
    Shuffle,
    Var,
    pointer,
)
from autosched.tir.float_bits import bits_type, bits_value, narrow, widen
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import POINTER_OFFSETS
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    BufferRealize,
    BufferStore,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import map_children, map_expr_children
from autosched.transform.low_precision.compute_legalize import IsSmall, mentions
from autosched.transform.low_precision.retyped import Retyping


def store_as_bits(
    name: str, compute_pass: str, func: PrimFunc, is_small: IsSmall, keep_parameters: bool
) -> PrimFunc:
    """Replace every small type in `func`; with `keep_parameters` except in parameters.

    Without it, raises CompileError for buffers of parameters. Raises CompileError for arithmetic in
    a small type.
    """
    if func.buffer_map and not keep_parameters:
        raise CompileError(
            f"{name}: {func.name} has buffers among its parameters, whose type its callers see; "
            "run MakePackedAPI before, or give keep_parameters=True"
        )
    if not mentions(func, is_small):
        return func
    rewriter = _Storage(name, compute_pass, func, is_small)
    if keep_parameters:
        return func.with_body(rewriter.stmt(func.body))
    params = tuple(map(rewriter.renamed, func.params))
    return replace(func, params=params, body=rewriter.stmt(func.body))


class _Storage(Retyping):
    def __init__(self, name: str, compute_pass: str, func: PrimFunc, is_small: IsSmall) -> None:
        super().__init__()
        self._name = name
        self._compute_pass = compute_pass
        self._is_small = is_small
        self._kept = {buffer.data for buffer in func.buffers}
        self._vars: dict[Var, Var] = {}
        self._rules |= {AllocateConst: self._allocate_const, BufferRealize: self._realize}

    def renamed(self, var: Var) -> Var:
        """The replacement of `var`: integer bits, or a pointer to them, if it was small."""
        if var.element is not None and self._is_small(var.element):
            bits = pointer(var.name, bits_type(var.element), var.scope)
        elif self._is_small(var.dtype):
            bits = Var(var.name, bits_type(var.dtype))
        else:
            return var
        return self._vars.setdefault(var, bits)

    # -- expressions

    def _retyped(self, e: Expr) -> Expr:
        """Rewrite `e`; a small value becomes its bits."""
        small = self._is_small(e.dtype)
        match e:
            case Var():
                known = self._vars.get(e)
                if known is not None:
                    return known
                return Call(bits_type(e.dtype), "reinterpret", (e,)) if small else e
            case FloatImm():
                return const(bits_value(e.value, e.dtype), bits_type(e.dtype)) if small else e
            case BufferLoad():
                return self._load(e)
            case Let():
                value = self._value(e.value)
                return Let(self.renamed(e.var), value, self._value(e.body))
            case Cast():
                return self._cast(e)
            case Call():
                return self._call(e)
            case Select() | Broadcast() | Shuffle():
                return map_expr_children(e, self._value)
        if any(self._is_small(child.dtype) for child in e.children()):
            self._refuse(e)
        return map_expr_children(e, self._value)

    def _cast(self, e: Cast) -> Expr:
        if self._is_small(e.dtype):
            return self._value(narrow(e.value, e.dtype))
        if self._is_small(e.value.dtype):
            return self._value(widen(e.value, e.dtype))
        return map_expr_children(e, self._value)

    def _call(self, e: Call) -> Expr:
        small = [self._is_small(a.dtype) for a in e.args]
        if e.op == "reinterpret":
            wanted = bits_type(e.dtype) if self._is_small(e.dtype) else e.dtype
            value = self._value(e.args[0])
            return value if value.dtype is wanted else Call(wanted, e.op, (value,))
        if e.op == "address_of" and isinstance(e.args[0], BufferLoad):
            load = e.args[0]
            indices = tuple(map(self._value, load.indices))
            return Call(e.dtype, e.op, (BufferLoad(self._buffer(load.buffer), indices),))
        if e.op == "tvm_access_ptr" and small[0]:
            kind = const(0, bits_type(e.args[0].dtype))
            return Call(e.dtype, e.op, (kind, *map(self._value, e.args[1:])))
        moves = e.op in POINTER_OFFSETS  # these move elements whatever their bits mean
        if (self._is_small(e.dtype) or any(small)) and e.op != "if_then_else" and not moves:
            self._refuse(e)
        args = tuple(map(self._value, e.args))
        if self._is_small(e.dtype):
            return Call(bits_type(e.dtype), e.op, args)
        return e if args == e.args else Call(e.dtype, e.op, args)

    def _load(self, e: BufferLoad) -> Expr:
        new = map_expr_children(e, self._value)
        assert isinstance(new, BufferLoad)
        buffer = self._buffer(e.buffer)
        if buffer is e.buffer:
            small = self._is_small(e.dtype)
            return Call(bits_type(e.dtype), "reinterpret", (new,)) if small else new
        return BufferLoad(buffer, new.indices, new.predicate)

    def _refuse(self, e: Expr) -> NoReturn:
        raise CompileError(
            f"{self._name}: {e!r} computes in a type that is only stored; run "
            f"{self._compute_pass} before"
        )

    # -- memory

    def _pointer(self, var: Var) -> Var:
        return self._vars.get(var, var)

    def _buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of `buffer`: over the new pointer, and of bits if it is small."""
        data = self._vars.get(buffer.data)
        if buffer.data in self._kept:
            return buffer
        if not self._is_small(buffer.dtype):
            return buffer if data is None else self._over(buffer, data, buffer.dtype)
        element = buffer.data.element
        if data is None and element is not None and not self._is_small(element):
            data = buffer.data  # a view of memory that holds bytes
        if data is None:
            raise CompileError(
                f"{self._name}: the buffer {buffer.name} is {buffer.dtype}, and nothing that this "
                "pass knows binds its pointer; declare it below its allocation"
            )
        return self._over(buffer, data, bits_type(buffer.dtype))

    def _store(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferStore)
        buffer, value = self._buffer(s.buffer), self._value(s.value)
        if buffer is s.buffer and self._is_small(s.value.dtype):  # a parameter keeps its type
            value = _as(s.value, value)
        indices = tuple(map(self._value, s.indices))
        predicate = None if s.predicate is None else self._value(s.predicate)
        same = value is s.value and indices == s.indices and predicate is s.predicate
        return s if same and buffer is s.buffer else BufferStore(buffer, value, indices, predicate)

    def _allocate(self, s: Stmt) -> Stmt:
        assert isinstance(s, Allocate)
        var = self.renamed(s.buffer_var)  # small memory may be part of a wider allocation
        dtype = bits_type(s.dtype) if self._is_small(s.dtype) else s.dtype
        return map_children(s.with_(buffer_var=var, dtype=dtype), self.stmt, self._value)

    def _allocate_const(self, s: Stmt) -> Stmt:
        assert isinstance(s, AllocateConst)
        if not self._is_small(s.dtype):
            return map_children(s, self.stmt, self._value)
        kind = bits_type(s.dtype)
        var, data = self.renamed(s.buffer_var), s.data.view(kind.numpy)
        return AllocateConst(var, kind, s.extents, data, self.stmt(s.body))

    def _realize(self, s: Stmt) -> Stmt:
        assert isinstance(s, BufferRealize)
        if self._is_small(s.buffer.dtype):
            raise CompileError(
                f"{self._name}: {s.buffer.name} is realised, not allocated; run StorageFlatten "
                "before"
            )
        return map_children(s, self.stmt, self._value)

    def _let(self, s: Stmt) -> Stmt:
        assert isinstance(s, LetStmt)
        value = self._value(s.value)
        return LetStmt(self.renamed(s.var), value, self.stmt(s.body))


def _as(small: Expr, bits: Expr) -> Expr:
    """Reinterpret `bits` as the type of `small`; a reinterpretation of a small value is undone."""
    if isinstance(bits, Call) and bits.op == "reinterpret" and bits.args[0].dtype is small.dtype:
        return bits.args[0]
    return Call(small.dtype, "reinterpret", (bits,))
