"""Recorded kernels in the place of a model's operations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.session.load_best import best_kernels
from autosched.session.tuned import Tuned, TunedKernel
from autosched.state.steps import steps_to_json
from autosched.target import make_target
from autosched.task import Task
from autosched.torch.matches import LeftOut, Match, matches_of
from autosched.torch.model_graph import Constants, exported
from autosched.torch.registry import Source, add, kernel_of, refuse_cuda, sources
from autosched.torch.replacement import Replacement
from autosched.torch.tables import inputs_text
from autosched.torch.tuned_module import Replaced, Report, WithKernels
from autosched.words import count

_REASONS = 3
"""How many reasons an error tells."""


def with_kernels(
    model: Any, records: Source | Sequence[Source], *example_inputs: Any
) -> WithKernels:
    """The model with recorded kernels in the place of what they were tuned for.

        fast = autosched.torch.with_kernels(model, "model.jsonl", x)
        print(fast.report)
        y = fast(x)

    The operations are those that `tasks_of(model, *example_inputs)` finds; of each that `records`
    have, the fastest record is taken. Whatever else the model computes, PyTorch goes on computing.
    The result is for inference, keeps the weights as they are now, and may be given to
    `torch.compile`.

    Args:
        model: a torch.nn.Module in inference; it stays as it is.
        records: what `register` takes.
        example_inputs: the model's arguments. Kernels are for their shapes.

    Raises ConfigError where a record is for CUDA, none is of this model, or the model cannot be
    traced; CompileError or ScheduleError when a candidate cannot be built.
    """
    known = _best_by_computation(records)
    module = exported(model, example_inputs)
    constants = Constants(module)
    replacement = Replacement(module, constants)
    matches, left_out = matches_of(module, constants, make_target("cpu"), "none")
    replaced: list[Replaced] = []
    for match in matches:
        kind, inputs = match.computation.kind, inputs_text(match.task)
        tuned = known.get(_computation(match.task))
        moved = [] if tuned is None else _moved_at_each_call(match, tuned, replacement)
        if tuned is None or moved:
            reason = f"its record wants {', '.join(moved)} stored in another order at each call"
            reason = reason if moved else f"no record of {inputs}"
            left_out.append(LeftOut(kind, match.place, reason))
            continue
        name = _operator(kind, tuned)
        replacement.replace(match, name)
        replaced.append(Replaced(kind, inputs, match.place, name))
    if not replaced:
        raise _none_fits(len(matches), known.values(), left_out)
    return WithKernels(
        model, replacement.finish(), example_inputs, Report(tuple(replaced), tuple(left_out))
    )


def _best_by_computation(records: Source | Sequence[Source]) -> dict[str, TunedKernel]:
    """The fastest record of each computation, however its weights are stored."""
    found: dict[str, TunedKernel] = {}
    for source in sources(records):
        if isinstance(source, Tuned):
            several = [each.best for each in source if each.found]
        else:
            several = [source] if isinstance(source, TunedKernel) else best_kernels(source)
        for tuned in several:
            refuse_cuda(tuned)
            key = _computation(tuned.task)
            there = found.get(key)
            if there is None or tuned.seconds < there.seconds:
                found[key] = tuned
    return found


def _computation(task: Task) -> str:
    workload = task.workload.to_json()
    workload.pop("layout_free", None)
    return json.dumps(workload, sort_keys=True)


def _moved_at_each_call(match: Match, tuned: TunedKernel, replacement: Replacement) -> list[str]:
    """Inputs that the kernel wants stored in another order and that no constants are."""
    if tuned.task.layout != LayoutOption.FOR_PRE_TRANSFORMED:
        return []
    operands = match.computation.operands
    names = [tensor.name for tensor in tuned.task.layout_free]
    return [name for name in names if not replacement.is_constant(operands[name])]


def _operator(kind: str, tuned: TunedKernel) -> str:
    """The name of an operator for this record alone, registered if it is not yet.

    Weights are stored as the record's kernel wants them: another record is another operator.
    """
    identity = json.dumps([tuned.task.to_json(), steps_to_json(tuned.steps)], sort_keys=True)
    mark = hashlib.sha256(identity.encode()).hexdigest()[:8]
    name = f"{kind.replace('+', '_')}_{mark}"
    return add(name, tuned.task, kernel_of(tuned), copy=True)


def _none_fits(
    operations: int, known: Iterable[TunedKernel], left_out: Sequence[LeftOut]
) -> ConfigError:
    if not operations:
        reasons = dict.fromkeys(f"{each.operation}: {each.reason}" for each in left_out)
        told = "; ".join(list(reasons)[:_REASONS]) or "it computes nothing"
        return ConfigError(
            f"model: expected operations that can be tuned, found none ({told}); "
            "autosched.torch.tasks_of(model, *example_inputs) says what is left out, and why"
        )
    titles = "; ".join(tuned.task.name for tuned in known) or "nothing"
    return ConfigError(
        f"records: expected some of the {count(operations, 'operation')} of the model that can be "
        f"tuned, found {titles}; tune autosched.torch.tasks_of(model, *example_inputs)"
    )
