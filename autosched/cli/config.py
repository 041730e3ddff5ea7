"""The format of configuration files, defined only here.

The published JSON Schema is generated from these models. `cli/read_config.py` reads values and
explains what is wrong with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from autosched.errors import ConfigError
from autosched.features.sets import TUNING, FeatureSetName
from autosched.lowering import SETTINGS
from autosched.measure.cluster.connect import require_address
from autosched.measure.flush import parse_flush
from autosched.measure.gpu_pool import ALL
from autosched.measure.run_options import MIN_REPEAT_MS, RunOptions
from autosched.search.cost_model import COST_MODELS
from autosched.search.options import OURS, SearchOptions, SpaceName, policy_problem
from autosched.search.own_model import spec_problem
from autosched.search.rules.tiling import structure_problem
from autosched.target import MAX_THREADS, Target, make_target, require_threads
from autosched.task import Task
from autosched.transform.framework.context import PHASES
from autosched.workloads.source import SOURCES

_ANSOR = SearchOptions()
_DAY = 86400
_LETTERS: dict[str, Any] = {"pattern": "^[SRsr]+$"}
_SPEC: dict[str, Any] = {"type": "string", "pattern": "[.]py:[^:]+$"}
_PHASE = {
    "enum": [*PHASES],
    "description": "0: at the start; 1: before loops are rewritten; 2: after they are unrolled; "
    "3 (unless given): after the last clean-up",
}
_OWN_PASSES: dict[str, Any] = {
    "items": {
        "anyOf": [
            _SPEC,
            {
                "type": "object",
                "properties": {"pass": _SPEC, "phase": _PHASE},
                "required": ["pass"],
                "additionalProperties": False,
            },
        ]
    }
}


MOST = 2**31 - 1
Count = Annotated[PositiveInt, Field(le=MOST)]
"""A number of things, for which arrays of them may be made."""


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError(f"expected the path of a file, found {value!r:.80}")
    return value


FilePath = Annotated[str, AfterValidator(_without_nul)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class WorkloadSection(_Section):
    """What to compute: exactly one of a built-in, an expression, or a Python function."""

    op: str | None = Field(default=None, description="a built-in, see `autosched workloads`")
    args: dict[str, int | str] = Field(default_factory=dict, description="the built-in's arguments")
    expr: str | None = Field(default=None, description="e.g. C[i, j] = sum(k, A[i, k] * B[k, j])")
    einsum: str | None = Field(default=None, description='e.g. "ij,jk->ik"; the result is `out`')
    shapes: dict[str, list[int]] = Field(default_factory=dict, description="shapes of the inputs")
    dtype: str | dict[str, str] | None = Field(
        default=None,
        description="element type of all tensors of the expression, or a type for each",
    )
    layout_free: list[str] = Field(
        default_factory=list,
        description="inputs of expr that layout_rewrite may store in another order",
    )
    python: str | None = Field(
        default=None, description="file.py:function returning argument tensors"
    )

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadSection:
        given = [key for key in SOURCES if getattr(self, key) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"expected exactly one of {', '.join(SOURCES)}, found {found}")
        if self.layout_free and self.expr is None and self.einsum is None:
            raise ValueError(
                "layout_free needs expr or einsum; built-in operators know their weights, a Python "
                "function names them in the attribute layout_free_placeholders of te.compute"
            )
        return self

    def to_json(self) -> dict[str, Any]:
        """The entry for `Task.from_json_workload`."""
        if self.op is not None:
            return {"op": self.op, "args": dict(self.args)}
        if self.python is None:
            source = "expr" if self.expr is not None else "einsum"
            return {
                source: self.expr if self.einsum is None else self.einsum,
                "shapes": self.shapes,
                "dtype": self.dtype or "float32",
                "layout_free": self.layout_free,
            }
        return {"python": self.python, "args": dict(self.args)}


class HardwareSection(_Section):
    """Overrides of the hardware parameters, by Ansor's names."""

    num_cores: PositiveInt | None = None
    vector_unit_bytes: PositiveInt | None = None
    cache_line_bytes: PositiveInt | None = None
    max_shared_memory_per_block: PositiveInt | None = None
    max_local_memory_per_block: PositiveInt | None = None
    max_threads_per_block: PositiveInt | None = None
    max_vthread_extent: PositiveInt | None = None
    warp_size: PositiveInt | None = None


class TargetSection(_Section):
    """The machine to make code for. What is not given is detected."""

    kind: Literal["cpu", "cuda"] = "cpu"
    threads: PositiveInt | None = Field(
        default=None, description="worker threads of parallel loops"
    )
    cpu: str | None = Field(
        default=None, description="LLVM's name of a CPU to make code for, e.g. x86-64-v3"
    )
    arch: str | None = Field(default=None, description="CUDA architecture, e.g. sm_90")
    tf32: bool = Field(
        default=False,
        description="whether tensor cores may round float32 operands to 10 bits of mantissa",
    )
    hosts: str | None = Field(
        default=None,
        description="a Ray cluster whose nodes build and measure: ray://HOST:PORT, HOST:PORT, auto "
        "or local",
    )
    hardware: HardwareSection = Field(default_factory=HardwareSection)

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, value: str | None) -> str | None:
        try:
            return value and require_address("hosts", value)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("hosts: ")) from error

    def make(self) -> Target:
        """Build the target. Raises ConfigError for a value that it does not accept."""
        if self.threads is not None and self.kind == "cpu" and not self.hosts:
            require_threads("target.threads", self.threads)
        return make_target(
            self.kind,
            threads=self.threads,
            cpu=self.cpu or "",
            arch=self.arch or "",
            tf32=self.tf32,
            **self.hardware.model_dump(exclude_none=True),
        )


class SearchSection(_Section):
    """How to search. The lower-case names below `seed` are Ansor's."""

    trials: Count = 64
    batch: PositiveInt = 16
    seed: int = Field(default=0, ge=0)
    time_budget_s: PositiveFloat | None = None
    early_stopping: PositiveInt | None = Field(
        default=None, description="stop after this many trials without a new best"
    )
    space: SpaceName = Field(
        default=_ANSOR.space,
        description="ansor: exactly Ansor's sketches; autosched: additional ones",
    )
    eps_greedy: float = Field(default=_ANSOR.eps_greedy, ge=0, le=1)
    retry_search_one_round_on_empty: int = Field(
        default=_ANSOR.retry_search_one_round_on_empty, ge=0, le=MOST
    )
    sample_init_min_population: Count = _ANSOR.sample_init_min_population
    sample_init_use_measured_ratio: float = Field(
        default=_ANSOR.sample_init_use_measured_ratio, ge=0, le=1
    )
    evolutionary_search_population: Count = _ANSOR.evolutionary_search_population
    evolutionary_search_num_iters: int = Field(
        default=_ANSOR.evolutionary_search_num_iters, ge=0, le=MOST
    )
    evolutionary_search_mutation_prob: float = Field(
        default=_ANSOR.evolutionary_search_mutation_prob, ge=0, le=1
    )
    cpu_multi_level_tiling_structure: str = Field(
        default=_ANSOR.cpu_multi_level_tiling_structure, json_schema_extra=_LETTERS
    )
    gpu_multi_level_tiling_structure: str = Field(
        default=_ANSOR.gpu_multi_level_tiling_structure, json_schema_extra=_LETTERS
    )
    max_innermost_split_factor: Count = _ANSOR.max_innermost_split_factor
    max_vectorize_size: Count = _ANSOR.max_vectorize_size
    disable_change_compute_location: bool = _ANSOR.disable_change_compute_location
    sketch_rules: list[str] = Field(
        default_factory=list,
        description="rules of your own, file.py:name, tried before the built-in ones",
    )
    policy: str = Field(
        default=OURS,
        description="autosched, or file.py:name of a search of your own",
        json_schema_extra={"anyOf": [{"enum": [OURS]}, {"pattern": "[.]py:[^:]+$"}]},
    )

    @field_validator("policy")
    @classmethod
    def _policy(cls, value: str) -> str:
        if problem := policy_problem(value):
            raise ValueError(problem)
        return value

    @field_validator("cpu_multi_level_tiling_structure", "gpu_multi_level_tiling_structure")
    @classmethod
    def _structure(cls, value: str, info: ValidationInfo) -> str:
        problem = structure_problem(value, is_gpu=str(info.field_name).startswith("gpu"))
        if problem:
            raise ValueError(problem)
        return value.upper()


class CostModelSection(_Section):
    """What ranks candidates before they are measured."""

    kind: str = Field(
        default="xgboost",
        description="xgboost, random, or file.py:name of a model of your own",
        json_schema_extra={"anyOf": [{"enum": [*COST_MODELS]}, {"pattern": "[.]py:[^:]+$"}]},
    )
    features: FeatureSetName = Field(
        default=TUNING, description="the feature set that the model learns from"
    )
    file: FilePath | None = Field(
        default=None, description="file of the model: loaded if it exists, saved after the run"
    )
    pretrained: bool = Field(
        default=True, description="start from a model that comes with autosched, if one fits"
    )

    @field_validator("kind")
    @classmethod
    def _kind(cls, value: str) -> str:
        if problem := spec_problem(value):
            raise ValueError(problem)
        return value


class MeasureSection(_Section):
    """How to build, run and check candidates."""

    timeout_s: float = Field(default=10.0, gt=0, le=_DAY)
    build_timeout_s: float = Field(default=15.0, gt=0, le=_DAY)
    reference_timeout_s: float | None = Field(
        default=None,
        gt=0,
        le=_DAY,
        description="time limit of the NumPy reference; default: six times timeout_s, at least 10",
    )
    min_repeat_ms: float = Field(
        default=MIN_REPEAT_MS,
        gt=0,
        le=_DAY,
        description="how long to time a candidate, in ms; those that leave the race of their batch "
        "early get less",
    )
    number: Literal["auto"] = Field(
        default="auto", description="calls per repeat: chosen to fit min_repeat_ms"
    )
    repeat: PositiveInt = 3
    check: Literal["best", "all", "none"] = "best"
    cache_flush: bool | int | str = Field(
        default=False,
        description="empty the caches before each call, and time each call alone: true, or how "
        "many bytes to write for that, e.g. 64 MiB",
    )
    workers: PositiveInt | None = Field(
        default=None,
        le=MAX_THREADS,
        description="processes that build candidates; default: one for each core, from 2 to 8; "
        "for GPUs one fewer than hardware threads, at most 16",
    )
    devices: str | list[int | str] = Field(
        default_factory=list,
        description="GPUs to measure on: numbers or UUIDs, or all; default: CUDA's first",
    )

    @field_validator("devices")
    @classmethod
    def _devices(cls, value: str | list[int | str]) -> str | list[int | str]:
        if isinstance(value, str):
            if value != ALL:
                raise ValueError(f"expected a list of GPUs, or {ALL}, found the text {value!r}")
            return value
        for device in value:
            if (isinstance(device, int) and device < 0) or value.count(device) > 1:
                raise ValueError(
                    f"expected distinct GPU numbers (0 or more) or UUIDs, found {device!r}"
                )
        return value

    @field_validator("cache_flush", mode="before")
    @classmethod
    def _flush(cls, value: Any) -> bool | int:
        try:
            return parse_flush(value)
        except ConfigError as error:
            raise ValueError(str(error).removeprefix("measure.cache_flush: ")) from error

    def run_options(self) -> RunOptions:
        """The settings for the runner."""
        return RunOptions(
            self.timeout_s,
            self.min_repeat_ms,
            self.repeat,
            reference_timeout=self.reference_timeout_s,
            cache_flush=parse_flush(self.cache_flush),
        )


class LoweringSection(_Section):
    """Changes to the lowering of candidates; `Lowering.parse` checks the values."""

    passes: list[Any] = Field(
        default_factory=list,
        description="passes of your own, file.py:name of a class or object",
        json_schema_extra=_OWN_PASSES,
    )
    disabled_pass: list[str] = Field(
        default_factory=list, description="names of passes that do not run"
    )
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="settings of the passes, e.g. {tir.noalias: false}",
        json_schema_extra={"propertyNames": {"enum": [*SETTINGS]}},
    )


class Config(_Section):
    """A whole configuration file."""

    name: str = ""
    workload: WorkloadSection
    target: TargetSection = Field(default_factory=TargetSection)
    search: SearchSection = Field(default_factory=SearchSection)
    cost_model: CostModelSection = Field(default_factory=CostModelSection)
    measure: MeasureSection = Field(default_factory=MeasureSection)
    layout_rewrite: Literal["none", "insert-transform-stage", "pre-transformed"] = Field(
        default="none",
        description="how a kernel gets its layout-free inputs in the order it reads them",
    )
    inputs: dict[str, dict[str, str | int | float | list[float]]] = Field(
        default_factory=dict,
        description="what inputs hold instead of random numbers, e.g. {A: {uniform: [0, 1]}}",
    )
    lowering: LoweringSection = Field(default_factory=LoweringSection)
    weight: PositiveFloat = Field(
        default=1.0, description="weight of this task in a run of several"
    )
    records: FilePath | None = Field(default=None, description="record file; default <name>.jsonl")

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if "/" in value or value in (".", "..") or not value.isprintable() or len(value) > 200:
            raise ValueError(
                "expected at most 200 printable characters without /, because the record file is "
                f"named after it, found {value!r:.80}; --set name=NAME gives another name, "
                "`records` a file in another folder"
            )
        return value

    def task(self) -> Task:
        """Build the task. Raises ConfigError if the workload or its arguments are wrong."""
        task = Task.from_json_workload(
            self.workload.to_json(), self.target.make(), self.layout_rewrite
        )
        task = task.with_inputs(self.inputs) if self.inputs else task
        lowering = self.lowering.model_dump()
        return task.with_lowering(**lowering) if any(lowering.values()) else task

    def records_path(self) -> Path:
        """The record file: `records`, or the name with .jsonl in the current folder."""
        return Path(self.records or f"{self.name}.jsonl")
