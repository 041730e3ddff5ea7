"""A backend of torch.compile: recorded kernels in its graphs, PyTorch for the rest.

    fast = torch.compile(model, backend=autosched.torch.backend("model.jsonl"))
    fast = torch.compile(model, backend="autosched", options={"records": "model.jsonl"})
    fast = torch.compile(model, backend="autosched")         # the records of the user's cache

PyTorch finds the name in the entry points of the group `torch_dynamo_backends`
(pytorch.org/docs/stable/torch.compiler_custom_backends.html).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.arguments import found
from autosched.cache_folder import VARIABLE, cache_folder
from autosched.errors import ConfigError
from autosched.session.kernel_cache import KernelCache
from autosched.session.load_best import best_kernels
from autosched.torch.compiled_graph import CompiledGraph
from autosched.torch.recorded import Known, Report, best_by_computation
from autosched.torch.registry import Source

_OPTIONS = "options: expected {'records': 'model.jsonl'}"


class Backend:
    """What `torch.compile` takes as its backend; `reports` tells what kernels compute.

    `known` says which kernels there are when a graph is compiled.
    """

    def __init__(self, known: Callable[[], Known]) -> None:
        self._known = known
        self._reports: list[Report] = []

    def __call__(self, graph: Any, examples: Sequence[Any], **settings: Any) -> CompiledGraph:
        """The graph with kernels in it, made when it is first called."""
        records = _records_of(settings.get("options"))
        known = self._known() if records is None else best_by_computation(records)
        return CompiledGraph(graph, examples, known, self._reports.append)

    @property
    def reports(self) -> tuple[Report, ...]:
        """A report for each graph that was called so far, and for each of its shapes."""
        return tuple(self._reports)

    @property
    def report(self) -> Report:
        """What kernels and PyTorch compute in all graphs."""
        return Report(
            tuple(each for report in self._reports for each in report.replaced),
            tuple(each for report in self._reports for each in report.left_out),
        )


def backend(records: Source | Sequence[Source] | None = None) -> Backend:
    """A backend of `torch.compile` with the kernels of these records.

        mine = autosched.torch.backend("model.jsonl")
        fast = torch.compile(model, backend=mine)
        y = fast(x)
        print(mine.report)

    Without records it is the one that `backend="autosched"` stands for: it takes those of the
    user's cache (`autosched cache add model.jsonl`), or of `options={"records": "model.jsonl"}`.
    Kernels are for inference: a call that asks for gradients is computed by PyTorch.

    Args:
        records: what `register` takes.

    Raises ConfigError where a record is for CUDA, or a file has none.
    """
    if records is None:
        return named
    known = best_by_computation(records)
    return Backend(lambda: known)


def compile_graph(graph: Any, examples: Sequence[Any], **settings: Any) -> CompiledGraph:
    """What `torch.compile(backend="autosched")` calls."""
    return named(graph, examples, **settings)


def _records_of(options: Any) -> Any:
    """The records that `options` name; None where there are no options."""
    if options is None:
        return None
    if not isinstance(options, Mapping) or set(options) != {"records"}:
        raise ConfigError(f"{_OPTIONS}, {found(options)}")
    return options["records"]


def _cached() -> Known:
    """The best kernels of the user's cache, for the CPU. ConfigError where it has none."""
    files = KernelCache(cache_folder()).files()
    several = best_kernels(list(files)) if files else []
    known = [tuned for tuned in several if not tuned.task.target.is_gpu]
    if not known:
        raise ConfigError(
            "backend 'autosched': expected records for the CPU in the cache of kernels, "
            f"{cache_folder()} has none; add some with `autosched cache add model.jsonl`, or name "
            "a file with "
            f"torch.compile(..., options={{'records': 'model.jsonl'}}); {VARIABLE} is the cache"
        )
    return best_by_computation(known)


named = Backend(_cached)
"""The backend that is called `autosched`."""
