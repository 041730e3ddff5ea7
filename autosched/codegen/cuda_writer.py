"""The state of writing one kernel: lines, names, used parts of the prelude, origins of lines.

Expressions are texts with the precedence of their outermost operator, so that parentheses stand
only where C needs them (and around a right operand, since floating point is not associative).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from autosched.codegen.cuda_names import Names
from autosched.codegen.cuda_types import is_half, memory_type, value_type
from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, Var
from autosched.tir.jumps import jumps


class Level(IntEnum):
    """Precedence of C's operators, from weakest to strongest."""

    CONDITIONAL = 1
    OR = 2
    AND = 3
    BIT_OR = 4
    BIT_XOR = 5
    BIT_AND = 6
    EQUAL = 7
    LESS = 8
    SHIFT = 9
    ADD = 10
    MUL = 11
    UNARY = 12
    PRIMARY = 13


class Text(NamedTuple):
    """An expression of C, and the precedence of its outermost operator."""

    text: str
    level: Level = Level.PRIMARY

    def within(self, level: Level) -> str:
        """The text as an operand where operators of at least `level` need no parentheses."""
        return self.text if self.level >= level else f"({self.text})"


Handler = Callable[["Writer", Expr], Text]


class Writer:
    """Lines of one kernel as they are written."""

    def __init__(
        self,
        handlers: Mapping[type[Expr], Handler],
        vector_pointers: frozenset[Var] = frozenset(),
        multiplies_tiles: bool = False,
        deciding: frozenset[Var] = frozenset(),
    ) -> None:
        self.vector_pointers = vector_pointers  # vectors are loaded or stored through these
        self.multiplies_tiles = multiplies_tiles  # by wgmma, which reads shared memory itself
        self.may_fuse = True  # a product and a sum may be rounded once; off in operands of `jumps`
        self.deciding = deciding  # variables and pointers that operands of jumps depend on
        self.names = Names()
        self.lines: list[str] = []
        self.origins: list[str] = []
        self.parts: set[str] = set()
        self.values: dict[Var, Text] = {}
        self.pointers: dict[Var, tuple[str, DType]] = {}
        self.read_only: set[Var] = set()  # pointers to const
        self._handlers = handlers
        self._indent = 1
        self._path: list[str] = []

    # -- lines --------------------------------------------------------------------------------

    def line(self, text: str, origin: str = "") -> None:
        """Writes a line; `origin` names the statement it was made from."""
        self.lines.append("  " * self._indent + text)
        self.origins.append(" / ".join((*self._path, origin) if origin else self._path))

    @contextmanager
    def block(self, head: str, origin: str) -> Iterator[None]:
        """Writes braces after `head`; `origin` names the statement of the lines inside."""
        self.line(f"{head} {{", origin)
        self._indent += 1
        self._path.append(origin)
        yield
        self._path.pop()
        self._indent -= 1
        self.line("}", origin)

    # -- values -------------------------------------------------------------------------------

    def value(self, e: Expr) -> Text:
        """The scalar `e`. Raises CompileError for an expression that has no meaning on a GPU."""
        known = self.values.get(e) if isinstance(e, Var) else None
        if known is not None:
            return known
        handler = self._handlers.get(type(e))
        if handler is None:
            raise CompileError(
                f"{type(e).__name__} reached CUDA code generation: run the lowering passes first: "
                f"{e!r}"
            )
        if not jumps(e):
            return handler(self, e)
        saved, self.may_fuse = self.may_fuse, False
        text = handler(self, e)
        self.may_fuse = saved
        return text

    def bound_value(self, var: Var, value: Expr) -> Text:
        """`value`, which `var` stands for: exact if jumps depend on `var`."""
        with self.exact_for(var):
            return self.value(value)

    @contextmanager
    def exact_for(self, var: Var | None) -> Iterator[None]:
        """Code written inside is exact if jumps depend on `var`, or on its memory."""
        saved = self.may_fuse
        self.may_fuse = saved and var not in self.deciding
        yield
        self.may_fuse = saved

    def operand(self, e: Expr, level: Level) -> str:
        """`e` as an operand where operators of at least `level` need no parentheses."""
        return self.value(e).within(level)

    def text(self, e: Expr) -> str:
        """`e` for a place where no operator is around it."""
        return self.value(e).text

    def use(self, part: str) -> None:
        """Notes that a part of the prelude is needed."""
        self.parts.add(part)

    def call(self, part: str, *args: str) -> Text:
        """A call of the prelude's function of the same name as its part."""
        self.use(part)
        return Text(f"{part}({', '.join(args)})")

    def type(self, dtype: DType) -> str:
        """The C type of a value of `dtype`; notes the part of the prelude that it needs."""
        name = value_type(dtype)
        if is_half(dtype):
            self.use(name)
        return name

    def widened(self, e: Expr) -> Text:
        """`e`, converted to float if it is a float of at most 16 bits."""
        value = self.value(e)
        if not is_half(e.dtype):
            return value
        return self.call(f"{value_type(e.dtype)}_to_f32", value.text)

    def narrowed(self, value: Text, dtype: DType) -> Text:
        """The float `value`, converted to `dtype` if that is a float of at most 16 bits."""
        if not is_half(dtype):
            return value
        return self.call(f"f32_to_{value_type(dtype)}", value.text)

    # -- memory -------------------------------------------------------------------------------

    def pointer_as(self, var: Var, name: str, dtype: DType) -> str:
        """The pointer `name` of `var` as one to elements of `dtype`."""
        const = "const " if var in self.read_only else ""
        return f"reinterpret_cast<{const}{memory_type(dtype)}*>({name})"

    def pointer(self, buffer: Buffer) -> tuple[str, DType]:
        """The name of a buffer's pointer and the type of the elements it points to."""
        found = self.pointers.get(buffer.data)
        if found is None:
            raise CompileError(f"the buffer {buffer.name} is used where it is not allocated")
        return found
