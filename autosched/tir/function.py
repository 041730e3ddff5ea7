"""Functions and modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from autosched.tir.buffer import Buffer
from autosched.tir.expr import Var
from autosched.tir.stmt import Stmt

if TYPE_CHECKING:
    from autosched.tir import (
        printer as _printer,  # `printer.py` binds itself here when it is loaded
    )


@dataclass(slots=True, eq=False, repr=False)
class PrimFunc:
    """A function of `params`; `buffer_map` gives the buffers of pointer parameters.

    `attrs` holds e.g. global_symbol (exported name), from_legacy_te_schedule, tir.noalias.
    """

    params: tuple[Var, ...]
    body: Stmt
    buffer_map: dict[Var, Buffer]
    attrs: dict[str, Any] = field(default_factory=dict)

    def with_body(self, body: Stmt) -> PrimFunc:
        """This function with another body; itself when the body is the same object."""
        return self if body is self.body else replace(self, body=body)

    def with_attrs(self, **attrs: Any) -> PrimFunc:
        """The function with `attrs` added to its own, replacing those of the same name."""
        return replace(self, attrs={**self.attrs, **attrs})

    @property
    def name(self) -> str:
        """The exported name; "main" where none is given."""
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def noalias(self) -> bool:
        """Whether no two arguments share memory: the attribute `tir.noalias`, by default True."""
        return bool(self.attrs.get("tir.noalias", True))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of the parameters, in order."""
        return tuple(self.buffer_map[p] for p in self.params if p in self.buffer_map)

    def __repr__(self) -> str:
        return _printer.to_text(self)


@dataclass(slots=True, eq=False, repr=False)
class IRModule:
    """A module: functions by name, in order."""

    functions: Mapping[str, PrimFunc]
    attrs: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PrimFunc:
        return self.functions[name]

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self.functions.values()))
