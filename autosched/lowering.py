"""The `lowering` of a task: a user's own passes, and settings of the pipeline.

lowering:
  passes: ["my_passes.py:OneThread", {pass: "my_passes.py:Other", phase: 1}]
  disabled_pass: [UnrollLoop]
  config: {tir.noalias: false}

Candidates are lowered and built with these everywhere (`candidate.py`); their features ignore them.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from autosched.arguments import found
from autosched.errors import ConfigError, ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.verify import verify
from autosched.transform.framework.context import (
    CONFIG_KEYS,
    PHASES,
    PassContext,
    PassInfo,
    check_config,
)
from autosched.transform.framework.pass_names import OWN_PASSES
from autosched.transform.framework.passes import FunctionPass, ModulePass, ProgramT
from autosched.transform.framework.user_passes import LAST_PHASE
from autosched.user_file import (
    failure_in,
    line_of,
    load_object,
    place_of,
    require_trusted,
    spec_of_class,
)
from autosched.user_source import require_source, source_digest
from autosched.words import visible

SETTINGS = {
    "tir.noalias": "",
    "tir.disable_vectorize": "VectorizeLoop",
    "tir.disable_storage_rewrite": "StorageRewrite",
    "tir.disable_cse_tir": "CommonSubexprElimTIR",
    "tir.instrument_bound_checkers": "InstrumentBoundCheckers",
    "tir.merge_static_smem": "MergeSharedMemoryAllocations",
    "tir.ptx_ldg32": "InjectPTXLDG32",
    "tir.use_async_copy": "InjectPTXAsyncCopy",
    "tir.InjectDoubleBuffer": "InjectDoubleBuffer",
    "tir.RemoveNoOp": "RemoveNoOp",
}
"""The keys of a PassContext that a task may set, each with the pass that reads it.

The value is empty where the key applies whatever passes run. These keys hold plain data, and are
read where candidates are lowered.
"""

_PASSES, _DISABLED, _CONFIG = "lowering: passes", "lowering: disabled_pass", "lowering: config"
_FORM = "file.py:Name, or {pass: file.py:Name, phase: 1}"
_DIGEST = "sha256"


@dataclass(frozen=True, slots=True)
class ChosenPass:
    """A pass of a user's file and the phase of the pipeline in which it runs.

    - `spec`: file.py:Name.
    - `digest`: identifies the pass's source, so that a changed pass makes another task.
    """

    spec: str
    phase: int = LAST_PHASE
    digest: str = ""

    @staticmethod
    def parse(data: Any) -> ChosenPass:
        """Parse an entry of `passes`. Raises ConfigError."""
        entry = data if isinstance(data, Mapping) else {"pass": data}
        if "pass" not in entry or set(entry) - {"pass", "phase", _DIGEST}:
            raise ConfigError(f"{_PASSES}: expected {_FORM}, {found(data)}")
        spec, phase = entry["pass"], entry.get("phase", LAST_PHASE)
        if isinstance(spec, type):
            spec = spec_of_class(spec, _PASSES)
        if not isinstance(spec, str):
            raise ConfigError(f"{_PASSES}: expected a class, {_FORM}, {found(spec)}")
        if type(phase) is not int or phase not in PHASES:
            raise ConfigError(
                f"{_PASSES}: {visible(spec)}: phase: expected 0 (the start), 1 (before loops are "
                "rewritten), 2 (after they are unrolled) or 3 (after the last clean-up), "
                f"{found(phase)}"
            )
        return ChosenPass(spec, phase, str(entry.get(_DIGEST) or source_digest(spec)))

    def to_json(self) -> dict[str, Any]:
        """The entry that `parse` takes."""
        digest = {_DIGEST: self.digest} if self.digest else {}
        return {"pass": self.spec, "phase": self.phase, **digest}

    @property
    def text(self) -> str:
        """The pass's name, with a phase other than the last: `OneThread`, `OneThread (phase 1)`."""
        name = self.spec.rpartition(":")[2]
        return name if self.phase == LAST_PHASE else f"{name} (phase {self.phase})"

    def load(self) -> LoadedPass:
        """Run the file and return the pass. Raises ConfigError where the result is not a pass."""
        _, made = load_object(self.spec, _PASSES, "pass")
        require_source(_PASSES, self.spec, self.digest, "pass")
        path, _, name = self.spec.rpartition(":")
        if isinstance(made, type) and issubclass(made, FunctionPass | ModulePass):
            try:
                made = made()
            except (Exception, SystemExit) as error:
                raise ConfigError(f"{_PASSES}: {failure_in(path, error, f'{name}()')}") from error
        problem = _no_pass(made)
        if problem:
            raise ConfigError(f"{_PASSES}: {visible(self.spec)} {problem}")
        return LoadedPass(path, made)


def _no_pass(made: Any) -> str:
    """Why `made` is not a valid pass; empty where it is one."""
    if isinstance(made, type):
        return "is no pass: expected a class that derives from FunctionPass or ModulePass"
    if not isinstance(made, FunctionPass | ModulePass):
        return f"is no pass: expected a FunctionPass or ModulePass, {found(made)}"
    if not isinstance(getattr(made, "name", None), str):
        return 'has no name: expected `name: ClassVar[str] = "..."` in its class'
    if _code_of(made) in (FunctionPass.apply, ModulePass.apply_module):
        method = "apply" if isinstance(made, FunctionPass) else "apply_module"
        return f"does not define {method}"
    if made.required:
        first = made.required[0]
        return f"has `required`, which a pipeline's passes have; call them, e.g. {first}()(func)"
    return ""


def _code_of(made: FunctionPass | ModulePass) -> Any:
    return type(made).apply if isinstance(made, FunctionPass) else type(made).apply_module


@dataclass(frozen=True)
class LoadedPass:  # `name` is a property, so mypy does not accept it as a `Pass`
    """A user's pass, whose errors become ScheduleErrors with the line of the user's file.

    A result that is not well formed, or whose signature changed, is a ScheduleError, too.
    """

    path: str
    made: FunctionPass | ModulePass

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.made.name

    @property
    def info(self) -> PassInfo:
        """The pass as contexts see it; with opt_level 0 it runs at every level."""
        return replace(self.made.info, opt_level=0)

    def __call__(self, program: ProgramT) -> ProgramT:
        """Transform `program` under the current context."""
        try:
            after = self.made(program)
        except (Exception, SystemExit) as error:
            line = line_of(_code_of(self.made), self.path)
            raise ScheduleError(failure_in(self.path, error, self.name, line)) from error
        if after is not program:
            self._require_well_formed(after)
            self._require_same_signatures(_functions(program), _functions(after))
        return after

    def _require_well_formed(self, program: PrimFunc | IRModule) -> None:
        try:
            for func in _functions(program).values():
                verify(func)
        except Exception as error:  # parts of the program may be anything
            raise ScheduleError(
                f"{place_of(_code_of(self.made), self.path, self.name)} made a function that is "
                f"not well formed: {str(error).strip() or type(error).__name__}"
            ) from error

    def _require_same_signatures(
        self, before: Mapping[str, PrimFunc], after: Mapping[str, PrimFunc]
    ) -> None:
        for name in before.keys() & after.keys():
            expected, made = before[name], after[name]
            if not _called_alike(expected, made):
                raise ScheduleError(
                    f"{place_of(_code_of(self.made), self.path, self.name)} made a function that "
                    "is called otherwise: expected the name and arguments of "
                    f"{_signature(expected)}, found {_signature(made)}"
                )


def _functions(program: PrimFunc | IRModule) -> Mapping[str, PrimFunc]:
    return {"": program} if isinstance(program, PrimFunc) else program.functions


def _called_alike(one: PrimFunc, other: PrimFunc) -> bool:
    """Whether callers of `one` can call `other`: same name, same types, no parameters exchanged."""
    if one.name != other.name or _types(one) != _types(other):
        return False
    places = {id(param): place for place, param in enumerate(one.params)}
    return all(places.get(id(param), k) == k for k, param in enumerate(other.params))


def _types(func: PrimFunc) -> list[str]:
    """The type and shape of each parameter."""
    buffers = [func.buffer_map.get(param) for param in func.params]
    return [
        str(param.dtype) if buffer is None else f"{buffer.dtype}{list(buffer.shape)}"
        for param, buffer in zip(func.params, buffers, strict=True)
    ]


def _signature(func: PrimFunc) -> str:
    """The signature as text: `main(A: float32[16, 16], n: int32)`."""
    names = [getattr(func.buffer_map.get(param), "name", param.name) for param in func.params]
    pairs = zip(names, _types(func), strict=True)
    return f"{func.name}({', '.join(f'{name}: {kind}' for name, kind in pairs)})"


@dataclass(frozen=True)
class Lowering:
    """A user's passes, the names of disabled passes, and settings by key.

    `trusted` is False where it was read from a record only to describe the task: files of passes
    may then need trust before they run.
    """

    passes: tuple[ChosenPass, ...] = ()
    disabled_pass: tuple[str, ...] = ()
    config: tuple[tuple[str, Any], ...] = ()
    trusted: bool = field(default=True, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy: passes are loaded again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __bool__(self) -> bool:
        return bool(self.passes or self.disabled_pass or self.config)

    @staticmethod
    def parse(data: Any) -> Lowering:
        """Parse the `lowering` of a configuration or record. Runs no file. Raises ConfigError."""
        if not isinstance(data, Mapping) or set(data) - {"passes", "disabled_pass", "config"}:
            raise ConfigError(
                "lowering: expected passes, disabled_pass and config, e.g. "
                f'{{passes: ["my_passes.py:OneThread"]}}, {found(data)}'
            )
        passes = _entries(_PASSES, data.get("passes", ()), _FORM)
        disabled = _entries(_DISABLED, data.get("disabled_pass", ()), "names of passes")
        for name in disabled:
            if not isinstance(name, str):
                raise ConfigError(f"{_DISABLED}: expected names of passes, {found(name)}")
        return Lowering(
            tuple(map(ChosenPass.parse, passes)),
            tuple(sorted(set(disabled))),
            _settings(data.get("config", {})),
        )

    def to_json(self) -> dict[str, Any]:
        """The entry that `parse` takes."""
        entry = {
            "passes": [each.to_json() for each in self.passes],
            "disabled_pass": list(self.disabled_pass),
            "config": {key: _plain(value) for key, value in self.config},
        }
        return {key: value for key, value in entry.items() if value}

    @property
    def text(self) -> str:
        """The lowering as text: `with OneThread and tir.disable_cse_tir=true, without Simplify`."""
        own = [each.text for each in self.passes]
        own += [f"{key}={json.dumps(_plain(value))}" for key, value in self.config]
        parts = (("with", own), ("without", self.disabled_pass))
        return ", ".join(f"{word} {' and '.join(names)}" for word, names in parts if names)

    @cached_property
    def loaded(self) -> tuple[tuple[int, LoadedPass], ...]:
        """The passes with their phases; loading them runs their files as they are now.

        Raises ConfigError when there is no such pass, it is not the one that was recorded, or its
        file is not trusted.
        """
        if not self.trusted:
            self.require_trusted()
        return tuple((each.phase, each.load()) for each in self.passes)

    def require_trusted(self) -> None:
        """Raise ConfigError unless the files of the passes, which a record names, may run."""
        for each in self.passes:
            require_trusted(each.spec, _PASSES)

    def require(self) -> None:
        """Raise ConfigError unless all passes exist, also disabled ones; runs the passes' files."""
        known = {*OWN_PASSES, *(made.name for _, made in self.loaded)}
        for name in self.disabled_pass:
            if name not in known:
                near = difflib.get_close_matches(name, known, 3) or sorted(known)
                raise ConfigError(
                    f"{_DISABLED}: no pass is called {name!r}; candidates: {', '.join(near)}"
                )

    def require_effect(self, kind: str) -> None:
        """Raise ConfigError where a part of the lowering has no effect for a `kind` of target.

        A disabled pass, and the pass that reads a setting, must be among those that candidates for
        the target go through; otherwise the user would not notice that nothing changes. Runs the
        files of passes.
        """
        if not self.disabled_pass and not self.config:
            return
        from autosched.transform.pipeline import names_of

        there = (*names_of(kind), *(made.name for _, made in self.loaded))
        lacks = f"no pass that candidates for {kind} go through: it would change nothing"
        for name in self.disabled_pass:
            if name not in there:
                raise ConfigError(f"{_DISABLED}: {name} is {lacks}; they are {', '.join(there)}")
        for key, _ in self.config:
            if SETTINGS[key] and SETTINGS[key] not in there:
                raise ConfigError(f"{_CONFIG}: {key} is read by {SETTINGS[key]}, {lacks}")

    def context(self) -> PassContext:
        """The current context, extended by this lowering, whose settings have priority.

        The instruments of the current context stay.
        """
        if not self:
            return PassContext.current().inner()
        passes = [[phase, made] for phase, made in self.loaded]
        config = {key: _plain(value) for key, value in self.config}
        return PassContext.current().inner(self.disabled_pass, config, passes)


NO_LOWERING = Lowering()


def _entries(where: str, data: Any, expected: str) -> list[Any]:
    if isinstance(data, str | Mapping) or not isinstance(data, Iterable):
        raise ConfigError(f"{where}: expected a list of {expected}, {found(data)}")
    return list(data)


def _settings(data: Any) -> tuple[tuple[str, Any], ...]:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{_CONFIG}: expected settings by their keys, {found(data)}")
    for key in data:
        if key in CONFIG_KEYS and key not in SETTINGS:
            hint = "; passes of your own stand under `passes`" if "add_lower" in key else ""
            raise ConfigError(
                f"{_CONFIG}: {key!r} is for a PassContext of this process, expected one of "
                f"{', '.join(SETTINGS)}{hint}"
            )
    check_config(data, _CONFIG, SETTINGS)
    return tuple(
        (key, tuple(sorted(value.items())) if isinstance(value, Mapping) else value)
        for key, value in sorted(data.items())
    )


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, tuple) else value
