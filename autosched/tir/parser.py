"""Parses functions and modules from the text that the printer writes.

    func = parse_func('''
        def main(A: Buffer((16,), float32), B: Buffer((16,), float32)):
            for i in range(16):
                B[i] = A[i] + 1.0
    ''')

The function is structurally equal to the one that was printed, and prints as the same text. A
name stands for one variable, or one buffer and its pointer, in the whole function. Nodes that no
function may hold (tensors, reductions) are printed, but cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Expr, Var
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser_stmt import StmtParser
from autosched.tir.parser_tokens import ParseError

__all__ = ["ParseError", "parse_expr", "parse_func", "parse_module"]


def parse_func(text: str) -> PrimFunc:
    """The function that `text` holds; ParseError unless it holds exactly one function.

    >>> func = parse_func('''
    ... def main(A: Buffer((4,), float32)):
    ...     for i in range(4):
    ...         A[i] = A[i] + 1.0
    ... ''')
    >>> func.name
    'main'
    """
    module = parse_module(text)
    if len(module.functions) != 1:
        raise ParseError(f"expected one function, found {len(module.functions)}")
    (func,) = module.functions.values()
    return func


def parse_module(text: str) -> IRModule:
    """The module of the functions that `text` holds; ParseError when it is not TIR."""
    parser = _FuncParser(text)
    attrs = parser.module_attrs()
    functions: dict[str, PrimFunc] = {}
    while parser.token.kind != "END":
        start = parser.token
        name, func = parser.func()
        if name in functions:
            raise parser.error(f"there is a function `{name}` above", start)
        functions[name] = func
    return IRModule(functions, attrs)


def parse_expr(text: str, names: Mapping[str, Var | Buffer]) -> Expr:
    """The expression that `text` holds; `names` gives its variables and buffers."""
    parser = _FuncParser(text)
    for name, thing in names.items():
        if isinstance(thing, Buffer):
            parser.buffers[name] = thing
            parser.vars.setdefault(name, thing.data)
        else:
            parser.vars[name] = thing
    result = parser.expr()
    parser.kind("NEWLINE", "the end of the expression")
    parser.kind("END", "the end of the text")
    return result


class _FuncParser(StmtParser):
    """Parses functions; every function has names of its own."""

    def module_attrs(self) -> dict[str, Any]:
        """Parse `module_attrs({...})` above the functions; empty if it is absent."""
        attrs: dict[str, Any] = {}
        if self.accept("module_attrs", "("):
            attrs = self.attribute()
            self.expect(")", "after the attributes of a module")
            self.kind("NEWLINE", "the end of the line")
        return attrs

    def func(self) -> tuple[str, PrimFunc]:
        """Parse `def name[sizes](parameters):` and the statements below it."""
        self.start_names()
        self.expect("def", "at the start of a function")
        name = self.name("the name of a function").text
        if self.accept("["):
            self.list_of(self.declared, "]")
        self.expect("(", "before the parameters")
        params: list[Var] = []
        buffer_map: dict[Var, Buffer] = {}
        self.list_of(lambda: self._param(params, buffer_map), ")")
        self._open_suite("the parameters")
        attrs: dict[str, Any] = {"global_symbol": name}
        if self.accept("attrs", "("):
            self.list_of(lambda: self._attribute(attrs), ")")
            self.kind("NEWLINE", "the end of the line")
        body = self._close_suite(self.block())
        self.resolve()
        if attrs["global_symbol"] is None:
            del attrs["global_symbol"]
        return name, PrimFunc(tuple(params), body, buffer_map, attrs)

    def _param(self, params: list[Var], buffer_map: dict[Var, Buffer]) -> None:
        name = self.name("a parameter")
        self.expect(":", "before the type of a parameter")
        if not self.accept("Buffer", "("):
            params.append(self.typed(name))
            return
        buffer, fields = self.own_buffer(name, "Buffer", "param")
        make = fields.get("param", lambda text: Var(text, handle))
        param = buffer.data if make is None else make(f"{name.text}_handle")
        params.append(param)
        buffer_map[param] = buffer

    def _attribute(self, attrs: dict[str, Any]) -> None:
        key = self.name("an attribute")
        self.expect("=", "after an attribute")
        attrs[key.text] = self.attribute()
