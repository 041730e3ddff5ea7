"""Base classes of passes, and sequences of passes.

A pass is a frozen dataclass: its fields are its options, and `name` and `apply` identify it.

    @dataclass(frozen=True)
    class RemoveNoOp(FunctionPass):
        name: ClassVar[str] = "RemoveNoOp"

        def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc: ...

`RemoveNoOp()(program)` runs it on a function or on every function of a module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Protocol, TypeVar, cast

from autosched.arguments import flag, found, instance, integer
from autosched.errors import ConfigError
from autosched.tir.function import IRModule, PrimFunc
from autosched.transform.framework.context import PassContext, PassInfo, Program
from autosched.transform.framework.pass_names import OWN_PASSES, Named

ProgramT = TypeVar("ProgramT", bound=Program)


class Pass(Protocol):
    """Anything that can be an element of a pipeline."""

    name: ClassVar[str]

    @property
    def info(self) -> PassInfo:
        """The description of the pass for contexts and instruments."""

    def __call__(self, program: ProgramT) -> ProgramT:
        """Transform `program` under the current context."""


_LEAST = {"vector_bytes": 1, "warp_size": 1, "cache_line": 1, "alignment": 1, "target_bits": 1}
"""Minimum values of integer options of our own passes; options that are not listed start at 0."""


@dataclass(frozen=True)
class _SinglePass(Named):
    """What all passes that are not sequences share.

    Raises ConfigError for options whose type differs from their annotation.
    """

    name: ClassVar[str]
    opt_level: ClassVar[int] = 0
    required: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for option in fields(self):
            value, what = getattr(self, option.name), f"{self.name}: {option.name}"
            kind = option.type.__name__ if isinstance(option.type, type) else option.type
            if kind == "int" or (kind == "int | None" and value is not None):
                own = self.name in OWN_PASSES
                integer(what, value, _LEAST.get(option.name, 0) if own else None)
            elif kind == "bool":
                object.__setattr__(self, option.name, flag(what, value))
            elif kind == "str":
                instance(what, value, str)

    @property
    def info(self) -> PassInfo:
        """The description of the pass for contexts and instruments."""
        return PassInfo(self.name, self.opt_level, self.required)


@dataclass(frozen=True)
class FunctionPass(_SinglePass):
    """A pass over single functions; `apply` returns its argument if nothing changes."""

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc | None:
        """Transform `func`; None removes it from its module."""
        raise TypeError(f"{type(self).__name__} must define apply")

    def __call__(self, program: ProgramT) -> ProgramT:
        """Transform `program` under the current context, even if that disables the pass."""
        ctx = PassContext.current()
        result = ctx.run(self.info, lambda p: _apply(self, p, ctx), program)
        return cast(ProgramT, result)


def _apply(pass_: FunctionPass, program: Program, ctx: PassContext) -> Program:
    if isinstance(program, PrimFunc):
        func = _applied(pass_, program, ctx)
        if func is None:
            raise ValueError(
                f"{pass_.name} removed the function {program.name}; run it on a module, or return "
                "a function from apply"
            )
        return func
    return _apply_to_module(lambda f: _applied(pass_, f, ctx), program)


def _applied(pass_: FunctionPass, func: PrimFunc, ctx: PassContext) -> PrimFunc | None:
    result: Any = pass_.apply(func, ctx)
    if not isinstance(result, PrimFunc | None):
        raise TypeError(f"{pass_.name}: apply: expected a PrimFunc, {found(result)}")
    return result


def _apply_to_module(
    transform: Callable[[PrimFunc], PrimFunc | None], module: IRModule
) -> IRModule:
    """Apply `transform` to all functions of a module; the module itself if nothing changes."""
    new: dict[str, PrimFunc] = {}
    for name, func in module.functions.items():
        # A module may contain entries of other kinds, which are kept.
        changed = transform(func) if isinstance(func, PrimFunc) else func
        if changed is not None:
            new[name] = changed
    if len(new) == len(module.functions) and all(
        new[name] is func for name, func in module.functions.items()
    ):
        return module
    return IRModule(new, module.attrs)


@dataclass(frozen=True)
class ModulePass(_SinglePass):
    """A pass over whole modules; `apply_module` returns its argument if nothing changes."""

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        """The transformed module; `module` itself if nothing changes."""
        raise TypeError(f"{type(self).__name__} must define apply_module")

    def __call__(self, program: ProgramT) -> ProgramT:
        """Transform a module; a single function is wrapped in a module that holds only it."""
        ctx = PassContext.current()
        result = ctx.run(self.info, lambda p: self._run(p, ctx), program)
        return cast(ProgramT, result)

    def _run(self, program: Program, ctx: PassContext) -> Program:
        module = program
        if isinstance(module, PrimFunc):
            module = IRModule({module.name: module})
        result = self.apply_module(module, ctx)
        if not isinstance(result, IRModule):
            raise TypeError(f"{self.name} returned {result!r}, expected an IRModule")
        if not isinstance(program, PrimFunc):
            return result
        if list(result.functions) != [program.name]:
            names = ", ".join(result.functions) or "no function"
            raise ValueError(
                f"{self.name} made {names} of the function {program.name}; expected one function "
                "of that name"
            )
        return result[program.name]


def run_enabled(pass_: Pass, program: ProgramT, ctx: PassContext) -> ProgramT:
    """Run `pass_` on `program` if `ctx` enables it, else return `program`."""
    return pass_(program) if ctx.pass_enabled(pass_.info) else program


@dataclass(frozen=True)
class Sequential:
    """Runs passes in order: each one that the context enables, after the passes it requires.

    Required passes are looked up by name in `registry`. Raises ConfigError for a name that is not
    there, and for an element that is no pass.

        >>> from autosched.tir.parser import parse_func
        >>> from autosched.transform.expressions.simplify import Simplify
        >>> from autosched.transform.loops.unroll_loop import UnrollLoop
        >>> func = parse_func('''
        ... def main(A: Buffer((2,), int32)):
        ...     for i in unrolled(2):
        ...         A[i] = i * 3
        ... ''')
        >>> print(Sequential((UnrollLoop(), Simplify()))(func))
        def main(A: Buffer((2,), int32)):
            A[0] = 0
            A[1] = 3
    """

    passes: tuple[Pass, ...]
    label: str = "Sequential"
    registry: Mapping[str, Callable[[], Pass]] = field(default_factory=dict)
    name: ClassVar[str] = "Sequential"

    def __post_init__(self) -> None:
        if not isinstance(self.passes, list | tuple):
            raise ConfigError(f"Sequential: expected a tuple of passes, {found(self.passes)}")
        for pass_ in self.passes:
            if isinstance(pass_, type) or not hasattr(pass_, "info"):
                raise ConfigError(
                    f"Sequential: expected objects of passes, e.g. Simplify(), {found(pass_)}"
                )

    @property
    def info(self) -> PassInfo:
        """The description with the label as name; instruments that print skip sequences."""
        return PassInfo(self.label, is_sequence=True)

    def __call__(self, program: ProgramT) -> ProgramT:
        """Run all passes that the current context enables."""
        ctx = PassContext.current()
        result = ctx.run(self.info, lambda p: self._run(p, ctx), program)
        return cast(ProgramT, result)

    def _run(self, program: Program, ctx: PassContext) -> Program:
        for pass_ in self.passes:
            info = pass_.info
            if not ctx.pass_enabled(info):
                continue
            for name in info.required:
                program = self._lookup(name, info)(program)
            program = pass_(program)
        return program

    def _lookup(self, name: str, wanted_by: PassInfo) -> Pass:
        if name not in self.registry:
            known = ", ".join(sorted(self.registry)) or "none"
            raise ConfigError(
                f"Sequential: {wanted_by.name} requires the pass {name!r}, which is not in the "
                f"registry of this sequence; passes there: {known}"
            )
        return self.registry[name]()
