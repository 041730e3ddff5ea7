"""Parses declarations: types of variables, buffers, views, attributes and their nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_negative
from autosched.tir.dtype import DType, handle, int32
from autosched.tir.expr import CommReducer, Expr, IterKind, IterVar, Range, SizeVar, Var, pointer
from autosched.tir.parser_expr import ExprParser
from autosched.tir.parser_tokens import Token
from autosched.tir.stmt import AttrStmt, BufferRegion


@dataclass(frozen=True, slots=True)
class Later:
    """A placeholder for the node of an attribute, whose name may be declared later.

    With `pointer`, the node is the variable of that name.
    """

    name: Token
    pointer: bool = False


class DeclParser(ExprParser):
    """Parses declarations of variables and buffers."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.start_names()

    def start_names(self) -> None:
        """Forget all names, as a new function begins."""
        self.vars, self.buffers = {}, {}
        self._forward = False
        self._unbound: dict[str, Token] = {}
        self._iters: dict[tuple[Var, str, str], IterVar] = {}
        self._attrs: list[AttrStmt] = []

    # -- variables

    def variable(self, name: Token) -> Expr:
        """The variable called `name`; in the fields of a view it may be bound later in the text."""
        if self._forward and name.text not in self.vars:
            self._unbound[name.text] = name
            self.vars[name.text] = Var(name.text)
        return super().variable(name)

    def bind(self, token: Token, dtype: DType, make: Callable[[], Var] | None = None) -> Var:
        """Bind the variable called `token`, which must have one type in the whole text."""
        self._unbound.pop(token.text, None)
        return super().bind(token, dtype, make)

    def declared(self) -> Var:
        """Parse `n: int32` and bind the variable."""
        name = self.name("a variable")
        self.expect(":", "before the type of a variable")
        return self.typed(name)

    def typed(self, name: Token) -> Var:
        """Parse the type after `name:` and bind the variable."""
        make = self.var_type()
        return self.bind(name, make("").dtype, lambda: make(name.text))

    def var_type(self) -> Callable[[str], Var]:
        """Parse `int32`, `size(int32)`, `handle` or `pointer(float32, "shared")`.

        Returns a function that makes a variable of that type from its name.
        """
        if self.accept("pointer", "("):
            element = self._element()
            scope = self.string("a storage scope") if self.accept(",") else "global"
            self.expect(")", "after the type of a pointer")
            return lambda name: Var(name, handle, element=element, scope=scope)
        if self.accept("size", "("):
            size = self.dtype()
            self.expect(")", "after the type of a size")
            return lambda name: SizeVar(name, size)
        dtype = self.dtype()
        return lambda name: Var(name, dtype)

    def _element(self) -> DType | None:
        return None if self.accept("None") else self.dtype()

    def shape(self) -> tuple[Expr, ...]:
        """Parse expressions in parentheses."""
        self.expect("(", "before a shape")
        return self.exprs(")")

    def sizes(self) -> tuple[Expr, ...]:
        """Parse the shape of memory."""
        start = self.token
        shape = self.shape()
        if any(map(is_negative, shape)):
            raise self.error("a size is negative", start)
        return shape

    # -- buffers

    def fields(self, owner: str, *known: str) -> dict[str, Any]:
        """Parse `, key=value` pairs up to the closing parenthesis; ParseError for unknown keys."""
        found: dict[str, Any] = {}
        while self.accept(","):
            key = self.name(f"a field of {owner}")
            if key.text not in known:
                raise self.error(
                    f"{owner} has no field `{key.text}`; expected one of {', '.join(known)}", key
                )
            self.expect("=", f"after the field {key.text}")
            found[key.text] = _FIELDS[key.text](self)
        self.expect(")", f"or `,` after a field of {owner}")
        return found

    def own_buffer(self, name: Token, owner: str, *more: str) -> tuple[Buffer, dict[str, Any]]:
        """Parse `shape, dtype, ...)`; return a buffer with its pointer, and the fields given."""
        shape = self.sizes()
        self.expect(",", "after the shape of a buffer")
        dtype = self.dtype()
        fields = self.fields(owner, "scope", *_POINTER, *_LAYOUT, *more)
        return self.declare(name, shape, dtype, fields.get("scope", "global"), fields), fields

    def declare(
        self, name: Token, shape: tuple[Expr, ...], dtype: DType, scope: str, fields: dict[str, Any]
    ) -> Buffer:
        """The buffer called `name`; if there is none, a new one over the pointer in `fields`."""
        found = self.buffers.get(name.text)
        if found is not None:
            return found
        element = fields.get("element", dtype)
        named = fields.get("data", name)
        data = self.bind(
            named, handle, lambda: Var(named.text, handle, element=element, scope=scope)
        )
        return self.view_of(name, data, shape, dtype, fields)

    def view_of(
        self, name: Token, data: Var, shape: tuple[Expr, ...], dtype: DType, fields: dict[str, Any]
    ) -> Buffer:
        """A new buffer called `name` over the pointer `data`."""
        buffer = self.buffers[name.text] = Buffer(
            data,
            dtype,
            shape,
            fields.get("strides", ()),
            fields.get("elem_offset"),
            name.text,
            fields.get("align", 64),
            fields.get("offset_factor", 1),
            tuple(fields.get("axis_separators", ())),
        )
        return buffer

    def view(self, name: Token) -> None:
        """Parse `name = view(data, shape, dtype, ...)` after `(`, and declare the buffer."""
        self._view("view", name, self.vars)

    def view_fields(self, name: Token) -> Buffer:
        """Parse `declare(data, shape, dtype, ...)`; return its buffer, whose pointer may be new."""
        return self._view("declare", name, None, "pointer")

    def _view(self, owner: str, name: Token, known: dict[str, Var] | None, *more: str) -> Buffer:
        data = self.name("a pointer")
        if known is not None:
            super().variable(data)  # raises, and lists the known pointers, if it is unknown
        self.expect(",", "after the pointer of a view")
        self._forward = True
        shape = self.shape()
        self.expect(",", "after the shape of a view")
        dtype = self.dtype()
        fields = self.fields(owner, *_LAYOUT, *more)
        self._forward = False
        pointed = self.bind_pointer(data, dtype, fields.get("pointer"))
        return self.view_of(name, pointed, shape, dtype, fields)

    def bind_pointer(self, name: Token, element: DType, make: Callable[[str], Var] | None) -> Var:
        """The pointer called `name`; a new one is made by `make`, or points to global memory."""
        if make is None:
            return self.bind(name, handle, lambda: pointer(name.text, element))
        return self.bind(name, handle, lambda: make(name.text))

    def ranges(self) -> tuple[Range, ...]:
        """Parse `[a:b, c:d]`."""
        self.expect("[", "before the ranges of a region")
        found: list[Range] = []
        self.list_of(lambda: found.append(self.range()), "]")
        return tuple(found)

    def region(self) -> BufferRegion:
        """Parse `A[a:b, c:d]`."""
        buffer = self.buffer(self.name("a buffer"))
        return BufferRegion(buffer, self.ranges())

    # -- attributes

    def attribute(self) -> Any:
        """Parse the value of an attribute: a Python literal, or an expression as `expr(...)`."""
        if self.accept("expr", "("):
            value: Any = self.expr()
            self.expect(")", "after an expression")
            return value
        for text, constant in (("True", True), ("False", False), ("None", None)):
            if self.accept(text):
                return constant
        if self.accept("float", "("):
            value = float(self.string("inf or nan"))
            self.expect(")", "after a float")
            return value
        if self.accept("["):
            items: list[Any] = []
            self.list_of(lambda: items.append(self.attribute()), "]")
            return items
        if self.accept("{"):
            table: dict[str, Any] = {}
            self.list_of(lambda: self._item(table), "}")
            return table
        if self.token.kind == "STRING":
            return self.string("a value")
        sign = -1 if self.accept("-") else 1
        number = self.kind("NUMBER", "the value of an attribute").text
        return sign * (int(number) if number.isdigit() else float(number))

    def _item(self, table: dict[str, Any]) -> None:
        key = self.string("a key")
        self.expect(":", "after a key")
        table[key] = self.attribute()

    def node(self) -> Any:
        """Parse the node of an attribute; names become `Later`."""
        if self.token.kind == "STRING":
            return self.string("a node")
        if self.accept("None"):
            return None
        if self.accept("["):
            nodes: list[Any] = []
            self.list_of(lambda: nodes.append(self.node()), "]")
            return nodes
        if self.accept("reducer", "("):
            return self._reducer()
        if self.accept("iter", "("):
            return self._iter()
        if self.accept("data", "(") or self.accept("var", "("):
            name = self.name("a variable")
            self.expect(")", "after a variable")
            return Later(name, pointer=True)
        return Later(self.name("what the attribute is about"))

    def _iter(self) -> IterVar:
        var = self.declared()
        self.expect(",", "after the type of a variable")
        kind = self.string("a kind of iteration")
        return self.iter_var(var, kind, "", self.fields("iter", "tag", "dom"))

    def iter_var(self, var: Var, kind: str, tag: str, fields: dict[str, Any]) -> IterVar:
        """The iteration variable over `var`; the same object for each (var, kind, tag)."""
        tag = fields.get("tag", tag)
        found = self._iters.get((var, kind, tag))
        if found is None:
            found = self._iters[var, kind, tag] = IterVar(fields.get("dom"), var, kind, tag)
        return found

    def _reducer(self) -> CommReducer:
        name = self.string("the name of a reducer")
        sides: list[tuple[Var, ...]] = []
        for _ in range(2):
            self.expect(",", "after a part of a reducer")
            self.expect("[", "before the variables of a reducer")
            sides.append(self._operands())
        parts: list[tuple[Expr, ...]] = []
        for _ in range(2):
            self.expect(",", "after a part of a reducer")
            self.expect("[", "before the expressions of a reducer")
            parts.append(self.exprs("]"))
        self.expect(")", "after a reducer")
        return CommReducer(sides[0], sides[1], parts[0], parts[1], name)

    def _operands(self) -> tuple[Var, ...]:
        found: list[Var] = []
        self.list_of(lambda: found.append(self.declared()), "]")
        return tuple(found)

    # -- names used before their declaration

    def attr(self, stmt: AttrStmt) -> AttrStmt:
        """`stmt`, recorded so that `resolve` replaces its node at the end of the function."""
        self._attrs.append(stmt)
        return stmt

    def resolve(self) -> None:
        """Replace the `Later` nodes of attributes; ParseError for a name that was never bound."""
        for name in self._unbound.values():
            raise self.error(f"`{name.text}` is bound nowhere", name)
        for stmt in self._attrs:
            stmt.node = self._resolved(stmt.node)

    def _resolved(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._resolved(part) for part in node]
        if not isinstance(node, Later):
            return node
        if node.pointer:
            return super().variable(node.name)
        if node.name.text in self.buffers:
            return self.buffers[node.name.text]
        # A pass may have removed the loop of an attribute: then nothing binds its variable.
        var = self.vars.get(node.name.text)
        if var is None:
            var = self.bind(node.name, int32)
        return self.iter_var(var, IterKind.DATA_PAR, "", {})

    def _param_type(self) -> Callable[[str], Var] | None:
        """Parse the type of a pointer parameter; None for `"data"`, the buffer's own pointer."""
        if self.token.kind == "STRING":
            self.string("data")
            return None
        return self.var_type()


_POINTER = ("data", "element")
_LAYOUT = ("strides", "elem_offset", "align", "offset_factor", "axis_separators")

_FIELDS: dict[str, Callable[[DeclParser], Any]] = {
    "align": lambda p: p.integer("a number of bytes"),
    "annotations": DeclParser.attribute,
    "axis_separators": DeclParser.attribute,
    "condition": DeclParser.expr,
    "data": lambda p: p.name("a pointer"),
    "dom": DeclParser.range,
    "dtype": DeclParser.dtype,
    "elem_offset": DeclParser.expr,
    "element": DeclParser._element,
    "kind": lambda p: p.string("a kind of iteration"),
    "offset_factor": lambda p: p.integer("a number of elements"),
    "param": DeclParser._param_type,
    "pointer": DeclParser.var_type,
    "realized": DeclParser.attribute,
    "scope": lambda p: p.string("a storage scope"),
    "shape": DeclParser.shape,
    "strides": DeclParser.shape,
    "tag": lambda p: p.string("a thread tag"),
    "thread": lambda p: p.string("a thread tag"),
}
