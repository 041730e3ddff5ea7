"""Recorded kernels in the place of a model's operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autosched.errors import ConfigError
from autosched.session.tuned import TunedKernel
from autosched.target import make_target
from autosched.torch.in_place import write_in_place
from autosched.torch.matches import LeftOut, matches_of
from autosched.torch.model_graph import Constants, exported
from autosched.torch.recorded import best_by_computation, put_kernels
from autosched.torch.registry import Source
from autosched.torch.replacement import Replacement
from autosched.torch.tuned_module import WithKernels
from autosched.words import count

_REASONS = 3
"""How many reasons an error tells."""


def with_kernels(
    model: Any, records: Source | Sequence[Source], *example_inputs: Any, **named_inputs: Any
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
        example_inputs: the model's arguments. Kernels are for their shapes, and read them in the
            memory formats of these.
        named_inputs: those of its arguments that are given by name.

    Raises ConfigError where a record is for CUDA, none is of this model, or the model cannot be
    traced; CompileError or ScheduleError when a candidate cannot be built.
    """
    known = best_by_computation(records)
    module = exported(model, example_inputs, named_inputs)
    constants = Constants(module)
    replacement = Replacement(module, constants)
    matches, left_out = matches_of(module, constants, make_target("cpu"), "none")
    report = put_kernels(replacement, matches, left_out, known)
    if not report.replaced:
        raise _none_fits(len(matches), known.values(), report.left_out)
    results = replacement.results
    graph = replacement.finish()
    write_in_place(graph.graph)
    graph.recompile()
    return WithKernels(model, graph, results, example_inputs, named_inputs, report)


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
