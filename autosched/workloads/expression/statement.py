"""A statement of an expression workload, and functions that find its tensor reads."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from autosched.errors import ConfigError
from autosched.workloads.constant_tensor import Numbers

PLACES = ("argmax", "argmin")
"""Reducers whose result is the place of a value along their only index."""

Part = Literal["value", "condition", "index", "own"]
"""What a helper's reduction is part of, which decides to what its elements are widened.

`own` is a conversion, or what `argmax` compares: the reduction has the type of its value.
"""


@dataclass
class Statement:
    """`name[indices] = reducer(reduce_indices, body)`; `reducer` is "" without a reduction.

    - `text`: the user's statement from which it comes.
    - `outer`: for a helper, which computes a reduction inside of a value: the statement of that
      value.
    - `part`: of what a helper's reduction is a part.
    - `table`: the numbers of a table; `body` then has no meaning.
    - `extents`: the length of every index, once `infer_extents` has run.
    - `around`: for a helper, the lengths of its indices that the reductions around it give.
    - `whole`: the indices that run over a whole axis.
    """

    text: str
    name: str
    indices: tuple[str, ...]
    reducer: str
    reduce_indices: tuple[str, ...]
    body: ast.expr
    outer: Statement | None = None
    part: Part = "value"
    table: Numbers | None = field(default=None, compare=False)
    extents: dict[str, int] = field(default_factory=dict)
    around: dict[str, int] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()

    @property
    def written(self) -> Statement:
        """The statement that the user wrote."""
        return self.outer or self

    @property
    def finds_place(self) -> bool:
        """Whether the result is a place (an index), whatever the type of the values."""
        return self.reducer in PLACES

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result, once the lengths of its indices are known."""
        return tuple(self.extents[name] for name in self.indices)

    def fail(self, reason: str) -> NoReturn:
        """Raise the ConfigError that quotes the statement."""
        fail(self.text, reason)


def fail(text: str, reason: str) -> NoReturn:
    """Raise the ConfigError that quotes the statement `text`."""
    raise ConfigError(f"expr: in `{text}`: {reason}")


def loads_of(body: ast.expr) -> list[ast.Subscript]:
    """The tensor reads in a value, in the order of the text."""
    found = [n for n in ast.walk(body) if isinstance(n, ast.Subscript)]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def tensor_of(load: ast.Subscript) -> str:
    """The name of the tensor that is read."""
    assert isinstance(load.value, ast.Name), "syntax.py lets only names be indexed"
    return load.value.id


def index_list(load: ast.Subscript) -> list[ast.expr]:
    """The index expressions of a read."""
    return list(load.slice.elts) if isinstance(load.slice, ast.Tuple) else [load.slice]


def branches(body: ast.expr) -> list[ast.expr]:
    """The values between which conditions choose: the arms of `a if c else b` and `where`."""
    arms: list[ast.expr] = []
    for node in ast.walk(body):
        match node:
            case ast.IfExp(body=first, orelse=second):
                arms += [first, second]
            case ast.Call(func=ast.Name(id="where"), args=[_, first, second]):
                arms += [first, second]
    return arms
