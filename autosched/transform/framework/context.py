"""PassContext: the settings that passes run under, as a thread-local stack of contexts."""

from __future__ import annotations

import difflib
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from autosched.arguments import found, integer
from autosched.errors import ConfigError, ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.transform.framework.pass_names import pass_names

Program = PrimFunc | IRModule


@dataclass(frozen=True, slots=True)
class PassInfo:
    """The description of a pass for instruments and `pass_enabled`."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    is_sequence: bool = False


@runtime_checkable
class Instrument(Protocol):
    """Observes passes; see `instruments.py` for ready-made ones."""

    def enter_pass_ctx(self) -> None:
        """Called when the context is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when the context is left."""

    def should_run(self, program: Program, info: PassInfo) -> bool:
        """Whether the pass may run; one instrument that returns False skips it."""

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        """Called before a pass transforms `program`."""

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        """Called with the result `program` of a pass."""


PHASES = (0, 1, 2, 3)
"""Phases: at the start, before loops are rewritten, after unrolling, after the last clean-up."""


class Limit(NamedTuple):
    """A restriction of a type's values: the test, and its wording in messages."""

    fits: Callable[[Any], bool]
    text: str


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The type of a configuration value, its default, and its limit.

    A dict holds the options of one pass: a subset of `options`, each with its own default value.
    """

    type: type
    default: Any
    limit: Limit | None = None
    options: Mapping[str, ConfigKey] = field(default_factory=dict)

    def require(self, where: str, what: str, value: Any) -> None:
        """Raise ConfigError, starting with `where`, unless `value` is valid; `what` names it."""
        kind = type(value)
        if kind is not self.type:
            raise ConfigError(f"{where}: {what} must be a {self.type.__name__}, found {value!r}")
        if self.limit is not None and not self.limit.fits(value):
            raise ConfigError(f"{where}: {what} must be {self.limit.text}, found {value!r}")
        for name, option in value.items() if self.options else ():
            if name not in self.options:
                raise ConfigError(
                    f"{where}: {what} has no option {name!r}; expected {', '.join(self.options)}"
                )
            self.options[name].require(where, f"{name!r} of {what}", option)


def _are_entries(value: Sequence[Any]) -> bool:
    """Whether all entries are pairs of a phase and a pass object (not a pass class)."""
    return all(
        isinstance(entry, list | tuple)
        and len(entry) == 2
        and entry[0] in PHASES
        and isinstance(getattr(entry[1], "info", None), PassInfo)
        for entry in value
    )


_SPLIT_LOOP = Limit(lambda n: n == 1 or (n >= 0 and n % 2 == 0), "0, 1 or an even number")
_COUNT = Limit(lambda n: n >= 0, "at least 0")
_ENTRIES = Limit(_are_entries, "pairs [phase, pass] with phases of 0 to 3 and objects of passes")
_FLAG = ConfigKey(bool, False)

CONFIG_KEYS: dict[str, ConfigKey] = {
    "tir.noalias": ConfigKey(bool, True),
    "tir.disable_vectorize": _FLAG,
    "tir.disable_storage_rewrite": _FLAG,
    "tir.disable_cse_tir": _FLAG,
    "tir.instrument_bound_checkers": _FLAG,
    "tir.instrument_lwp": _FLAG,
    "tir.instr_siblings": ConfigKey(bool, True),
    "tir.lwp_max_depth": ConfigKey(int, 0, _COUNT),
    "tir.lwp_min_height": ConfigKey(int, 1, _COUNT),
    "tir.lwp_disable_func_prof": _FLAG,
    "tir.reset_start_id": _FLAG,
    "tir.add_lower_pass": ConfigKey(list, [], _ENTRIES),
    "tir.vtcm_capacity": ConfigKey(int, 0, _COUNT),
    "tir.merge_static_smem": ConfigKey(bool, True),
    "tir.ptx_ldg32": _FLAG,
    "tir.use_async_copy": _FLAG,
    "tir.InjectDoubleBuffer": ConfigKey(
        dict, {}, options={"split_loop": ConfigKey(int, 0, _SPLIT_LOOP)}
    ),
    "tir.RemoveNoOp": ConfigKey(dict, {}, options={"use_dataflow_analysis": _FLAG}),
}
"""Every configuration key that a context accepts: the keys of Ansor that a pass here reads."""

_ALIKE = 0.8  # more than the `tir.` that all of them begin with


def check_config(
    config: Mapping[str, Any],
    where: str = "PassContext",
    keys: Collection[str] = CONFIG_KEYS.keys(),
) -> None:
    """Raise ConfigError, starting with `where`, unless all keys are in `keys` and values valid."""
    if not isinstance(config, Mapping):
        raise ConfigError(f"{where}: config: expected values by their keys, {found(config)}")
    for key, value in config.items():
        if key not in keys:
            raise ConfigError(f"{where}: {_unknown_key(key, keys)}")
        known = CONFIG_KEYS[key]
        if value is None:
            raise ConfigError(
                f"{where}: {key!r} is None; leave the key out to get its default {known.default!r}"
            )
        known.require(where, repr(key), value)


def _unknown_key(key: Any, keys: Collection[str]) -> str:
    close = difflib.get_close_matches(str(key), keys, 1, _ALIKE)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    if key == "tir.detect_global_barrier":
        hint = ". Blocks of a kernel do not wait for each other; compute it in two kernels"
    return f"unknown configuration key {key!r}; expected one of {', '.join(sorted(keys))}{hint}"


def _instruments(given: Any) -> list[Instrument]:
    if isinstance(given, Iterable):
        kept = list(given)
        if all(isinstance(each, Instrument) and not isinstance(each, type) for each in kept):
            return kept
    example = "PassTiming()"
    raise ConfigError(
        f"PassContext: instruments: expected a list of instruments, e.g. [{example}], "
        f"{found(given)}"
    )


@dataclass(eq=False)
class PassContext:
    """Settings for the passes that run inside `with PassContext(...):`.

    `trace(program, info, is_before)` is a short form of an instrument. Raises ConfigError for an
    unknown configuration key, a value of the wrong type, an instrument without the methods of one,
    or a pass name that is not known. A user's own pass is known once its class is defined, or if
    `tir.add_lower_pass` lists it.

        >>> with PassContext(disabled_pass=["UnrollLoop"], config={"tir.noalias": False}):
        ...     PassContext.current().setting("tir.noalias")
        False
    """

    opt_level: int = 2
    required_pass: Iterable[str] = ()
    disabled_pass: Iterable[str] = ()
    instruments: list[Instrument] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)
    trace: Callable[[Program, PassInfo, bool], None] | None = None

    def __post_init__(self) -> None:
        self.instruments = _instruments(self.instruments)
        integer("PassContext: opt_level", self.opt_level)
        check_config(self.config)
        own = [pass_ for _, pass_ in self.config.get("tir.add_lower_pass", ())]
        self.required_pass = pass_names("PassContext: required_pass", self.required_pass, own)
        self.disabled_pass = pass_names("PassContext: disabled_pass", self.disabled_pass, own)

    @staticmethod
    def current() -> PassContext:
        """The innermost context of this thread; outside of any, a default with opt_level 2."""
        return _stack.contexts[-1]

    def inner(
        self,
        disabled_pass: Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        passes: Sequence[Any] = (),
    ) -> PassContext:
        """A context to enter inside this one, with the settings of this one and more.

        The instruments of this context also see passes that run in the inner one, but not that it
        is entered or left. Where `config` and this context share a key, the value of this context
        counts. `passes`, in the form of `tir.add_lower_pass`, run before its own. Raises
        ConfigError as the class does.
        """
        added = [*passes, *self.setting("tir.add_lower_pass")]
        return replace(
            self,
            disabled_pass={*self.disabled_pass, *disabled_pass},
            instruments=[_Outer(self)] if self.instruments else [],
            config={**(config or {}), **self.config, "tir.add_lower_pass": added},
        )

    def setting(self, key: str) -> Any:
        """The configured value of `key`, or its default.

        Options of a pass that are not given have their defaults. Raises ConfigError for an unknown
        key.
        """
        if key not in CONFIG_KEYS:
            raise ConfigError(f"PassContext: {_unknown_key(key, CONFIG_KEYS)}")
        known = CONFIG_KEYS[key]
        value = self.config.get(key, known.default)
        if known.options:
            return {**{name: each.default for name, each in known.options.items()}, **value}
        return value

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pass runs: never if disabled, always if required, else by opt_level."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    def __enter__(self) -> PassContext:
        entered: list[Instrument] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            self.instruments.clear()
            for instrument in reversed(entered):
                instrument.exit_pass_ctx()
            raise
        _stack.contexts.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        assert _stack.contexts[-1] is self, "contexts must be left in the order they were entered"
        _stack.contexts.pop()
        for instrument in self.instruments:
            instrument.exit_pass_ctx()

    def run(self, info: PassInfo, fn: Callable[[Program], Program], program: Program) -> Program:
        """Call `fn(program)` under the instruments, which may veto a pass that is not required.

        Raises ScheduleError if an integer divisor is 0 for all data or if the program is nested
        more deeply than Python can follow, and ConfigError if `program` is neither a PrimFunc nor
        an IRModule.
        """
        if not isinstance(program, PrimFunc | IRModule):
            raise ConfigError(f"{info.name}: expected a PrimFunc or IRModule, {found(program)}")
        if not self.instruments and self.trace is None:
            return _applied(info, fn, program)
        if info.name not in self.required_pass:
            wanted = [i.should_run(program, info) for i in self.instruments]
            if not all(wanted):
                return program
        self._announce(program, info, is_before=True)
        result = _applied(info, fn, program)
        self._announce(result, info, is_before=False)
        return result

    def _announce(self, program: Program, info: PassInfo, *, is_before: bool) -> None:
        for instrument in self.instruments:
            notify = instrument.run_before_pass if is_before else instrument.run_after_pass
            notify(program, info)
        if self.trace is not None:
            self.trace(program, info, is_before)


@dataclass(frozen=True, slots=True)
class _Outer:
    """Forwards to the instruments of a context that was entered before."""

    context: PassContext

    def enter_pass_ctx(self) -> None:
        """Do nothing: the outer context has been entered."""

    def exit_pass_ctx(self) -> None:
        """Do nothing: the outer context is left later."""

    def should_run(self, program: Program, info: PassInfo) -> bool:
        wanted = [each.should_run(program, info) for each in self.context.instruments]
        return all(wanted)

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        for each in self.context.instruments:
            each.run_before_pass(program, info)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        for each in self.context.instruments:
            each.run_after_pass(program, info)


def _applied(info: PassInfo, fn: Callable[[Program], Program], program: Program) -> Program:
    try:
        return fn(program)
    except ZeroDivisionError as error:  # of `x // (y - y)`, for example
        raise ScheduleError(f"{info.name}: {error}") from error
    except RecursionError as error:
        raise ScheduleError(
            f"{info.name}: Python's recursion limit of {sys.getrecursionlimit()} calls is reached; "
            "where statements (variables, checks of many arrays) or terms are nested so deeply, "
            "make several functions of them, or raise it by sys.setrecursionlimit"
        ) from error


class _Stack(threading.local):
    def __init__(self) -> None:
        self.contexts: list[PassContext] = [PassContext()]


_stack = _Stack()
