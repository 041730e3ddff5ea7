"""The settings passes run under: a thread-local stack of contexts over a default one."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autosched.errors import ConfigError, ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.transform.framework.pass_names import pass_names

Program = PrimFunc | IRModule


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What instruments and `pass_enabled` see of a pass."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    is_sequence: bool = False


class Instrument(Protocol):
    """Watches passes; see `instruments.py` for ready ones."""

    def enter_pass_ctx(self) -> None:
        """The context is entered."""

    def exit_pass_ctx(self) -> None:
        """The context is left."""

    def should_run(self, program: Program, info: PassInfo) -> bool:
        """Whether the pass may run; one False suffices to leave it out."""

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        """A pass is about to transform `program`."""

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        """A pass has made `program`."""


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """The type of a configuration value and the value when it is not given.

    A dict holds the options of one pass: those of `default`, each with its own default value.
    """

    type: type
    default: Any


_FLAG = ConfigKey(bool, False)

CONFIG_KEYS: dict[str, ConfigKey] = {
    "tir.noalias": ConfigKey(bool, True),
    "tir.disable_vectorize": _FLAG,
    "tir.disable_storage_rewrite": _FLAG,
    "tir.disable_cse_tir": _FLAG,
    "tir.instrument_lwp": _FLAG,
    "tir.instr_siblings": ConfigKey(bool, True),
    "tir.lwp_max_depth": ConfigKey(int, 0),
    "tir.lwp_min_height": ConfigKey(int, 1),
    "tir.lwp_disable_func_prof": _FLAG,
    "tir.reset_start_id": _FLAG,
    "tir.add_lower_pass": ConfigKey(list, []),
    "tir.vtcm_capacity": ConfigKey(int, 0),
    "tir.merge_static_smem": ConfigKey(bool, True),
    "tir.ptx_ldg32": _FLAG,
    "tir.use_async_copy": _FLAG,
    "tir.InjectDoubleBuffer": ConfigKey(dict, {"split_loop": 0}),
    "tir.RemoveNoOp": ConfigKey(dict, {"use_dataflow_analysis": False}),
}
"""Every configuration key a context accepts: those of Ansor's that something here reads."""

_ALIKE = 0.8  # more than the `tir.` that all of them begin with


def check_config(
    config: Mapping[str, Any],
    where: str = "PassContext",
    keys: Collection[str] = CONFIG_KEYS.keys(),
) -> None:
    """Raise ConfigError, beginning with `where`, unless these are values of some of the `keys`."""
    for key, value in config.items():
        if key not in keys:
            close = difflib.get_close_matches(str(key), keys, 1, _ALIKE)
            hint = f". Did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                f"{where}: unknown configuration key {key!r}; expected one of "
                f"{', '.join(sorted(keys))}{hint}"
            )
        known = CONFIG_KEYS[key]
        if value is None:
            raise ConfigError(
                f"{where}: {key!r} is None; leave the key out to get its default {known.default!r}"
            )
        if type(value) is not known.type:
            raise ConfigError(f"{where}: {key!r} must be a {known.type.__name__}, found {value!r}")
        if known.type is dict:
            _check_options(where, key, config[key], known.default)


def _check_options(
    where: str, key: str, options: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    for name, value in options.items():
        if name not in known:
            raise ConfigError(
                f"{where}: {key!r} has no option {name!r}; expected {', '.join(known)}"
            )
        if type(value) is not type(known[name]):
            raise ConfigError(
                f"{where}: {name!r} of {key!r} must be a {type(known[name]).__name__}, "
                f"found {value!r}"
            )


@dataclass(eq=False)
class PassContext:
    """Settings for the passes run inside `with PassContext(...):`.

    `trace(program, info, is_before)` is the short form of an instrument. Raises ConfigError for
    an unknown configuration key, a value of the wrong type, or a name that no pass has: passes of
    one's own are known once their classes are defined, or by `tir.add_lower_pass`.

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
        self.instruments = list(self.instruments)
        check_config(self.config)
        own = [
            each for entry in self.config.get("tir.add_lower_pass", ()) for each in _parts(entry)
        ]
        self.required_pass = pass_names("PassContext: required_pass", self.required_pass, own)
        self.disabled_pass = pass_names("PassContext: disabled_pass", self.disabled_pass, own)

    @staticmethod
    def current() -> PassContext:
        """The innermost context of this thread; the default one (opt_level 2) outside any."""
        return _stack.contexts[-1]

    def inner(
        self,
        disabled_pass: Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        passes: Sequence[Any] = (),
    ) -> PassContext:
        """A context to enter inside of this one, which has what this one has, and more.

        What watches here watches there, and is not told of the entering. Where `config` and this
        context have a key, the context's value counts; `passes`, as in `tir.add_lower_pass`, run
        before its own. Raises ConfigError as the class does.
        """
        added = [*passes, *self.setting("tir.add_lower_pass")]
        return replace(
            self,
            disabled_pass={*self.disabled_pass, *disabled_pass},
            instruments=[_Outer(self)] if self.instruments else [],
            config={**(config or {}), **self.config, "tir.add_lower_pass": added},
        )

    def setting(self, key: str) -> Any:
        """The configured value of `key`, or the default registered for it.

        The options of a pass that are not given have their defaults.
        """
        default = CONFIG_KEYS[key].default
        if isinstance(default, dict):
            return {**default, **self.config.get(key, {})}
        return self.config.get(key, default)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Disabled passes never run, required ones always; others by opt_level."""
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
        """`fn(program)` seen by the instruments, which may veto a pass that is not required.

        Raises ScheduleError when a divisor of integers turns out to be 0 whatever the data are.
        """
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
    """What watches another context, which is entered already."""

    context: PassContext

    def enter_pass_ctx(self) -> None:
        """It was, before."""

    def exit_pass_ctx(self) -> None:
        """It will be, later."""

    def should_run(self, program: Program, info: PassInfo) -> bool:
        wanted = [each.should_run(program, info) for each in self.context.instruments]
        return all(wanted)

    def run_before_pass(self, program: Program, info: PassInfo) -> None:
        for each in self.context.instruments:
            each.run_before_pass(program, info)

    def run_after_pass(self, program: Program, info: PassInfo) -> None:
        for each in self.context.instruments:
            each.run_after_pass(program, info)


def _parts(entry: Any) -> Iterable[Any]:
    """Those of an entry of `tir.add_lower_pass`, which is checked when it runs."""
    return entry if isinstance(entry, list | tuple) else ()


def _applied(info: PassInfo, fn: Callable[[Program], Program], program: Program) -> Program:
    try:
        return fn(program)
    except ZeroDivisionError as error:  # of `x // (y - y)`
        raise ScheduleError(f"{info.name}: {error}") from error


class _Stack(threading.local):
    def __init__(self) -> None:
        self.contexts: list[PassContext] = [PassContext()]


_stack = _Stack()
