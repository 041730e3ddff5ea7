"""Records in, operators of PyTorch out."""

from __future__ import annotations

import json
import keyword
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from autosched import arguments, workloads
from autosched.errors import ConfigError
from autosched.runtime.artifact import ParamSpec
from autosched.runtime.cpu import CpuKernel
from autosched.session.load_best import best_kernels
from autosched.session.tuned import Tuned, TunedKernel, TunedTask
from autosched.task import Task
from autosched.torch.operator import Operator
from autosched.torch.threads import share_threads

NAMESPACE = "autosched"

_library = torch.library.Library(NAMESPACE, "FRAGMENT")  # operators live as long as it does
_operators: dict[str, tuple[str, Operator]] = {}
"""By name: which computation it is, and the operator."""

_adding = threading.Lock()

_USUAL = {
    "stride": 1,
    "padding": 0,
    "dilation": 1,
    "groups": 1,
    "x_zero": 0,
    "y_zero": 0,
    "relu": 1,
}
_TYPES = ("acc", "out")
_WINDOWS = {"max_pool2d_nchw": ("K",)}
"""Arguments that no input's shape tells."""

Source = str | os.PathLike[str] | Tuned | TunedTask | TunedKernel


def register(
    records: Source | Sequence[Source], *, name: str = "", copy: bool = False
) -> dict[str, Any]:
    """Make recorded kernels for the CPU operators of PyTorch; they are returned by name.

        autosched.torch.register("mm.jsonl")
        c = torch.ops.autosched.matmul(a, b)

    An operator takes the inputs and returns the outputs, new tensors. Several shapes of one
    computation become one operator, which chooses by the shapes and types of its inputs; calling
    `register` again adds shapes, or replaces the kernels of those that are there. What is no size
    is part of the name, `conv2d_nhwc_stride2_padding1`, and so are types that inputs do not tell,
    `matmul_out_int8`. `torch.compile` keeps operators in its
    graphs. They have no gradient: a tensor that requires one is refused while gradients are on.

    Args:
        records: a record file (the best record of each of its tasks, chosen as `load_best` does),
            what `autosched.tune` returned, that of one of its tasks, its `best`, or several of
            these. Files count as one that has the records of all.
        name: the operator's name, where the records are of one computation.
        copy: copy inputs that are not contiguous; without it they are refused.

    Raises ConfigError for records that are not for the CPU, or when an operator of that name
    computes something else; CompileError or ScheduleError when a candidate cannot be built.
    """
    arguments.flag("copy", copy)
    if name and not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise ConfigError(f"name: expected an identifier, {arguments.found(name)}")
    found = [(tuned.task, kernel_of(tuned)) for tuned in best_of_each(records)]
    kinds = {_computation(task): _name(task) for task, _ in found}
    if name and len(kinds) > 1:
        raise ConfigError(
            f"name: {name} is for one computation, the records are of {', '.join(kinds.values())}"
        )
    made = [add(name or _name(task), task, kernel, copy=copy) for task, kernel in found]
    return {each: operator_of(each) for each in made}


def registered() -> dict[str, list[str]]:
    """The operators of this process by name, and the signatures of the kernels of each."""
    return {name: operator.signatures for name, (_, operator) in _operators.items()}


def is_there(name: str, task: Task) -> bool:
    """Whether the operator `name` is registered, and computes what the task does."""
    return name in _operators and _operators[name][0] == _computation(task)


def operator_of(name: str) -> Any:
    """The operator for PyTorch's graphs."""
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def kernel_for(target: Any, inputs: Sequence[Any]) -> tuple[CpuKernel, Any]:
    """The kernel that the operator `target` of a graph runs for these inputs, and a tensor like
    its first output. Raises MeasureError where there is none."""
    variant = _operators[target._schema.name.partition("::")[2]][1].choice(inputs)
    return variant.kernel, variant.outputs[0]


def prepare(name: str, *tensors: Any) -> tuple[Any, ...]:
    """The inputs of the operator `name`, stored as its kernel for these shapes expects them.

        x, stored = autosched.torch.prepare("conv2d_nhwc", x, weight)
        y = torch.ops.autosched.conv2d_nhwc(x, stored)

    Only kernels that were tuned for pre-transformed inputs (`layout_rewrite`) need that: a constant
    input once, not at every call. Other inputs are returned as they are. Raises ConfigError for an
    unknown operator, MeasureError where it has no kernel for these shapes.
    """
    if not isinstance(name, str) or name not in _operators:
        known = ", ".join(_operators) or "there is none yet"
        raise ConfigError(f"name: expected a registered operator ({known}), found {name!r}")
    return _operators[name][1].prepare(*tensors)


def _sources(records: Source | Sequence[Source]) -> list[Source]:
    """The record files and results, one or several of which were given; of a task its best.

    Raises ConfigError for anything else, MeasureError for a task of which nothing was found.
    """
    several: Sequence[Any] = records if isinstance(records, list | tuple) else [records]
    for each in several:
        if not isinstance(each, str | os.PathLike | Tuned | TunedTask | TunedKernel):
            raise ConfigError(
                "records: expected the path of a record file, what autosched.tune returned, its "
                f"best, or a list of these, {arguments.found(each)}"
            )
    return [each.best if isinstance(each, TunedTask) else each for each in several]


def refuse_cuda(tuned: TunedKernel) -> None:
    """Raise ConfigError for a record that is not for the CPU."""
    if tuned.task.target.is_gpu:
        raise ConfigError(
            f"{tuned.task.name} was tuned for CUDA; operators are made of kernels for the CPU. "
            "Those for CUDA take PyTorch's tensors as they are: autosched.load_best(records)(x, y)"
        )


def kernel_of(tuned: TunedKernel) -> CpuKernel:
    """The kernel, built for this CPU. Raises ConfigError where it is for CUDA."""
    refuse_cuda(tuned)
    kernel = tuned.build()
    assert isinstance(kernel, CpuKernel)
    return kernel


def best_of_each(
    records: Source | Sequence[Source], *, found_only: bool = False
) -> list[TunedKernel]:
    """The best of each task of the files, which count as one, then those of the results.

    Raises MeasureError for a task of a run in which nothing was found; `found_only` leaves it out.
    """
    several = _sources(records)
    paths = [each for each in several if isinstance(each, str | os.PathLike)]
    best = best_kernels(paths[0] if len(several) == 1 else paths) if paths else []
    for source in several:
        if isinstance(source, Tuned):
            best += [each.best for each in source if each.found or not found_only]
        elif isinstance(source, TunedKernel):
            best.append(source)
    return best


def add(name: str, task: Task, kernel: CpuKernel, *, copy: bool) -> str:
    """Make `kernel` a variant of the operator `name`, a new one or that which is there."""
    with _adding:
        return _add(name, task, kernel, copy=copy)


def _add(name: str, task: Task, kernel: CpuKernel, *, copy: bool) -> str:
    computation, params = _computation(task), kernel.artifact.params
    known = _operators.get(name)
    if known is None:
        operator = Operator(f"{NAMESPACE}::{name}", _title(task), params, copy=copy)
        operator.add(task.workload.title, kernel)
        _define(name, operator, params)
        _operators[name] = computation, operator
        return name
    before, operator = known
    if before != computation:
        raise ConfigError(
            f"the operator {name} is {operator.title} already, and {_title(task)} is something "
            "else; register it under another name, with name="
        )
    operator.add(task.workload.title, kernel)
    operator.copy = copy
    return name


def _define(name: str, operator: Operator, params: Sequence[ParamSpec]) -> None:
    share_threads()
    inputs = ", ".join(f"Tensor {each}" for each in _schema_names(params))
    several = operator.number_of_outputs
    outputs = "Tensor" if several == 1 else f"({', '.join(['Tensor'] * several)})"
    tags = [getattr(torch.Tag, tag, None) for tag in ("pt2_compliant_tag", "needs_exact_strides")]
    if tags[-1] is None:
        tags.append(getattr(torch.Tag, "needs_fixed_stride_order", None))
    given = tuple(tag for tag in tags if tag is not None)
    _library.define(f"{name}({inputs}) -> {outputs}", tags=given)
    _library.impl(name, operator.run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", operator.fake, lib=_library)


def _schema_names(params: Sequence[ParamSpec]) -> list[str]:
    """Names that PyTorch's schemas take: the tensors' own where they can be."""
    found: list[str] = []
    for number, p in enumerate(p for p in params if not p.is_output):
        plain = re.fullmatch(r"[A-Za-z]\w*", p.name, flags=re.ASCII) and p.name != "self"
        usable = plain and not keyword.iskeyword(p.name) and p.name not in found
        found.append(p.name if usable else f"input{number}")
    return found


def _settings(task: Task) -> dict[str, Any]:
    """The arguments of a built-in operator that are no sizes, where they are not as usual."""
    workload: Mapping[str, Any] = task.workload.to_json()
    args = workload.get("args")
    if not isinstance(args, Mapping) or "op" not in workload:
        return {}
    told = (*_USUAL, *_WINDOWS.get(workload["op"], ()))
    found = {key: args[key] for key in told if key in args and args[key] != _USUAL.get(key)}
    known = workloads.get(workload["op"])
    types = known.types.shown(known.types_of(args))
    # Those of inputs are told by the tensors of a call.
    return found | {f"{key}_": types[f"{key}_dtype"] for key in _TYPES if f"{key}_dtype" in types}


def _name(task: Task) -> str:
    """`matmul`, `conv2d_nhwc_stride2_padding1`; `kernel` for what has no name."""
    named = re.sub(r"\W", "_", task.function_name, flags=re.ASCII)
    operator = "kernel" if named == "main" else named
    told = (f"{key}{value}".replace("-", "minus") for key, value in _settings(task).items())
    return "_".join([operator, *told])


def _title(task: Task) -> str:
    workload: Mapping[str, Any] = task.workload.to_json()
    for form in ("expr", "einsum"):
        if form in workload:
            return str(workload[form])
    return _name(task)


def _computation(task: Task) -> str:
    """What it computes, whatever the sizes: equal texts for one operator."""
    workload = dict(task.workload.to_json())
    if "op" in workload:
        return json.dumps([workload["op"], _settings(task)])
    forms = {key: workload[key] for key in ("expr", "einsum", "python") if key in workload}
    return json.dumps([forms, task.layout.text], sort_keys=True)
