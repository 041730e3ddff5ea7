"""Prints declarations: the types of variables, buffers, and views of memory.

`DeclPrinter` is the part of the printer between expressions and statements.
"""

from __future__ import annotations

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.dtype import handle
from autosched.tir.expr import BufferLoad, Expr, IterKind, IterVar, SizeVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.printer_expr import ExprPrinter
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Prefetch,
)
from autosched.tir.walk import free_vars, stmts, unique_exprs


class DeclPrinter(ExprPrinter):
    """Prints the declarations of variables and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self._views: dict[Var, list[Buffer]] = {}

    def param(self, param: Var, buffer: Buffer | None) -> str:
        """The declaration of a parameter: `n: int32`, or that of the buffer of a pointer."""
        if buffer is None:
            return f"{self.var(param)}: {type_text(param)}"
        fields = self.own_fields(buffer)
        if param is buffer.data:
            fields.append('param="data"')
        else:
            self.alias(param, self.buffer(buffer))
            if type_text(param) != "handle":
                fields.append(f"param={type_text(param)}")
        return f"{self.buffer(buffer)}: Buffer({', '.join(fields)})"

    def declaration(self, buffer: Buffer) -> str:
        """`name: Buffer(shape, dtype, ...)`, with the fields that are not the default."""
        name = self.buffer(buffer)
        return f"{name}: Buffer({', '.join(self.own_fields(buffer))})"

    def sizes(self, func: PrimFunc) -> str:
        """`[n: size(int32)]`: the variables that the shapes of parameters bind; empty for none."""
        found: dict[Var, None] = {}
        for buffer in func.buffers:
            for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
                variables = () if e is None else free_vars(e)
                found.update(dict.fromkeys(sorted(variables, key=lambda v: v.name)))
        own = [v for v in found if v not in func.params]
        return f"[{', '.join(f'{self.var(v)}: {type_text(v)}' for v in own)}]" if own else ""

    def own_fields(self, buffer: Buffer) -> list[str]:
        """The fields of a buffer whose declaration also declares its pointer."""
        name = self.buffer(buffer)
        fields = [self.shape(buffer.shape), str(buffer.dtype)]
        if buffer.scope != "global" and self.var(buffer.data) == name:
            fields.append(f'scope="{buffer.scope}"')
        return fields + self.pointer_fields(buffer, name) + self.layout_fields(buffer)

    def pointer_fields(self, buffer: Buffer, name: str) -> list[str]:
        """The fields for a pointer with another name or element type than the buffer's."""
        data = buffer.data
        if self.var(data) != name:
            return [f"data={self.var(data)}"]
        return [] if data.element is buffer.dtype else [f"element={data.element}"]

    def layout_fields(self, buffer: Buffer) -> list[str]:
        """The fields for strides, offset and alignment that are not the default."""
        fields = []
        if buffer.strides:
            fields.append(f"strides={self.shape(buffer.strides)}")
        if buffer.elem_offset is not None:
            fields.append(f"elem_offset={self.expr(buffer.elem_offset)}")
        if buffer.data_alignment != 64:
            fields.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor != 1:
            fields.append(f"offset_factor={buffer.offset_factor}")
        if buffer.axis_separators:
            fields.append(f"axis_separators={list(buffer.axis_separators)}")
        return fields

    # -- views of memory that is bound already

    def find_views(self, func: PrimFunc) -> None:
        """Record the buffers of `func` that no statement declares, by their pointers."""
        found: dict[Buffer, None] = {}
        declared: set[Buffer] = set(func.buffer_map.values())
        for stmt in stmts(func.body):
            match stmt:
                case BufferStore(buffer) | Prefetch(buffer) | AttrStmt(Buffer() as buffer):
                    found.setdefault(buffer)
                case DeclBuffer(buffer) | BufferRealize(buffer):
                    declared.add(buffer)
                case Block():
                    declared.update(stmt.alloc_buffers)
                    declared.update(m.buffer for m in stmt.match_buffers)
                    found.update((r.buffer, None) for r in (*stmt.reads, *stmt.writes))
                    found.update((m.source.buffer, None) for m in stmt.match_buffers)
        for expr in unique_exprs(func.body):
            if isinstance(expr, BufferLoad):
                found.setdefault(expr.buffer)
        for buffer in found:
            if buffer not in declared:
                self._views.setdefault(buffer.data, []).append(buffer)

    def view_lines(self, data: Var, bound_by: Allocate | AllocateConst | None = None) -> list[str]:
        """The declarations of the views of pointer `data`, to be printed where it is bound.

        The view with the name, shape and type of the allocation `bound_by` needs none.
        """
        lines = []
        for buffer in self._views.pop(data, ()):
            name = self.buffer(buffer)
            if name != self.var(data) or bound_by is None or not _implied(bound_by, buffer):
                lines.append(f"{name} = view({', '.join(self.view(buffer))})")
        return lines

    def view(self, buffer: Buffer) -> list[str]:
        """The pointer, shape, type and layout of a view."""
        shape = self.shape(buffer.shape)
        return [self.var(buffer.data), shape, str(buffer.dtype), *self.layout_fields(buffer)]

    # -- nodes of attributes

    def node(self, node: object) -> str:
        """The text of an attribute's node: the name of a loop or buffer, else a constructor."""
        if isinstance(node, IterVar):
            plain = node.kind == IterKind.DATA_PAR and node.dom is None and not node.thread_tag
            if plain and node.var.dtype.name == "int32":
                return self.var(node.var)
            fields = [f"{self.var(node.var)}: {node.var.dtype}", f'"{node.kind}"']
            return f"iter({', '.join(fields + self.iter_fields(node, ''))})"
        if isinstance(node, Var):
            return f"data({self.var(node)})" if node.dtype is handle else f"var({self.var(node)})"
        return self.value(node)

    def iter_fields(self, iv: IterVar, tag: str) -> list[str]:
        """The fields for a thread tag other than `tag`, and for a domain if there is one."""
        fields = [] if iv.thread_tag == tag else [f'tag="{iv.thread_tag}"']
        return fields if iv.dom is None else [*fields, f"dom={self.range(iv.dom)}"]


def type_text(var: Var) -> str:
    """The type of a variable: `int32`, `size(int32)` or `pointer(float32, "shared")`."""
    if var.element is not None:
        scope = "" if var.scope == "global" else f', "{var.scope}"'
        return f"pointer({var.element}{scope})"
    return f"size({var.dtype})" if isinstance(var, SizeVar) else str(var.dtype)


def is_whole(buffer: Buffer, bounds: tuple[tuple[Expr, Expr], ...]) -> bool:
    """Whether the (min, extent) pairs cover the whole buffer."""
    extents = tuple(extent for _, extent in bounds)
    return extents == buffer.shape and all(is_zero(low) for low, _ in bounds)


def _implied(bound_by: Allocate | AllocateConst, buffer: Buffer) -> bool:
    plain = not buffer.strides and buffer.elem_offset is None
    usual = (buffer.data_alignment, buffer.offset_factor, buffer.axis_separators) == (64, 1, ())
    same = buffer.dtype is bound_by.dtype and buffer.shape == bound_by.extents
    return plain and usual and same
