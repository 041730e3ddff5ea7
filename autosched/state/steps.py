"""The transform steps, Ansor's 14 and two of our own: frozen values that make up a candidate.

A candidate is a tuple of steps. They are written to records as JSON arrays:

    AN stage iter annotation          FU stage [iters]              PR stage iter "pragma"
    RE stage [after_ids]              SP stage iter extent [lengths] inner_to_outer
    FSP stage iter src_step n_split   FFSP stage iter [src_steps] level factor_or_nparts
    SA stage iter factor offset       CA stage target_stage target_iter
    CI stage                          CR stage                      CHR stage "scope" [readers]
    CHW stage "scope"                 RF stage iter factor_iter
    TI stage "instruction" rows columns pack_a over
    XM stage writer "instruction" [block_m, block_n, block_k, warp_m, warp_n] stages swizzle

Ansor does not have TI and XM, nor the pragma `software_pipeline$N`: its logs cannot hold them.

Stage ids are those at the moment when the step is applied. `apply.py` defines the effect of steps
on a loop state, `replay.py` their effect on a te.Schedule.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

from autosched.errors import ConfigError
from autosched.state.iterator import Annotation

JsonStep = list[Any]


@dataclass(frozen=True, slots=True)
class Step:
    """Base class of the steps: the stage that the step is applied to."""

    code: ClassVar[str] = ""
    stage_id: int

    def to_json(self) -> JsonStep:
        """The array that represents this step in a record."""
        return [self.code, *(_encode(getattr(self, f.name)) for f in fields(self))]


@dataclass(frozen=True, slots=True)
class AnnotationStep(Step):
    """Annotate an iterator: unroll, vectorize, parallel or a thread axis."""

    code: ClassVar[str] = "AN"
    iter_id: int
    annotation: Annotation


@dataclass(frozen=True, slots=True)
class FuseStep(Step):
    """Fuse consecutive iterators."""

    code: ClassVar[str] = "FU"
    iter_ids: tuple[int, ...]


@lru_cache(maxsize=1024)
def _number(pragma: str, key: str) -> int | None:
    found, _, number = pragma.partition("$")
    return int(number) if found == key and number.isdecimal() else None


@dataclass(frozen=True, slots=True)
class PragmaStep(Step):
    """Attach a pragma: `auto_unroll_max_step$N`, `debug_skip_region` or `software_pipeline$N`.

    The last one is not Ansor's: tiles in shared memory at the iterator are filled ahead of time,
    and N of them are held at once (`transform/device/inject_software_pipeline.py`).
    """

    code: ClassVar[str] = "PR"
    iter_id: int
    pragma: str

    @property
    def unroll_limit(self) -> int | None:
        """The N of `auto_unroll_max_step$N`; None for another pragma."""
        return _number(self.pragma, "auto_unroll_max_step")

    @property
    def pipeline_stages(self) -> int | None:
        """The N of `software_pipeline$N`; None for another pragma."""
        return _number(self.pragma, "software_pipeline")

    def with_number(self, number: int) -> PragmaStep:
        """The pragma with another number."""
        key = self.pragma.partition("$")[0]
        return shared_pragma(self.stage_id, self.iter_id, f"{key}${number}")

    @property
    def number(self) -> int | None:
        """The N of a pragma that has one of these two numbers; None for any other pragma."""
        limit = self.unroll_limit
        return self.pipeline_stages if limit is None else limit


@dataclass(frozen=True, slots=True)
class ReorderStep(Step):
    """Reorder the iterators: position p takes the old iterator after_ids[p]."""

    code: ClassVar[str] = "RE"
    after_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SplitStep(Step):
    """Split an iterator by lengths, outer to inner; None is a length still to be chosen.

    `extent` is the iterator's extent, None when undefined.
    """

    code: ClassVar[str] = "SP"
    iter_id: int
    extent: int | None
    lengths: tuple[int | None, ...]
    inner_to_outer: bool = True

    def with_lengths(self, lengths: tuple[int | None, ...]) -> SplitStep:
        """The split with other lengths."""
        return _split(self.stage_id, self.iter_id, self.extent, lengths, self.inner_to_outer)

    def with_extent(self, extent: int) -> SplitStep:
        """The split of an iterator of another extent."""
        return _split(self.stage_id, self.iter_id, extent, self.lengths, self.inner_to_outer)


@dataclass(frozen=True, slots=True)
class FollowSplitStep(Step):
    """Split an iterator into n_split + 1 pieces by the lengths of an earlier SP step."""

    code: ClassVar[str] = "FSP"
    iter_id: int
    src_step_id: int
    n_split: int


@dataclass(frozen=True, slots=True)
class FollowFusedSplitStep(Step):
    """Split in two by the product of lengths[level] of earlier SP steps."""

    code: ClassVar[str] = "FFSP"
    iter_id: int
    src_step_ids: tuple[int, ...]
    level: int
    factor_or_nparts: bool


@dataclass(frozen=True, slots=True)
class StorageAlignStep(Step):
    """Align the stride of an axis of the stage's storage: stride % factor == offset."""

    code: ClassVar[str] = "SA"
    iter_id: int
    factor: int
    offset: int


@dataclass(frozen=True, slots=True)
class ComputeAtStep(Step):
    """Compute the stage at an iterator of another stage."""

    code: ClassVar[str] = "CA"
    target_stage_id: int
    target_iter_id: int


@dataclass(frozen=True, slots=True)
class ComputeInlineStep(Step):
    """Inline the stage into its readers."""

    code: ClassVar[str] = "CI"


@dataclass(frozen=True, slots=True)
class ComputeRootStep(Step):
    """Compute the stage at the root."""

    code: ClassVar[str] = "CR"


@dataclass(frozen=True, slots=True)
class CacheReadStep(Step):
    """Insert, after the stage, a copy of its output in `scope` for the reader stages."""

    code: ClassVar[str] = "CHR"
    scope: str
    reader_stage_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CacheWriteStep(Step):
    """Compute the stage into `scope` first; the computing stage takes the stage's id.

    Right after a ReorderStep of the stage, the axes of the cache are in the new order.
    """

    code: ClassVar[str] = "CHW"
    scope: str


@dataclass(frozen=True, slots=True)
class RfactorStep(Step):
    """Factor a reduction iterator out into a data axis at position factor_iter_id."""

    code: ClassVar[str] = "RF"
    iter_id: int
    factor_iter_id: int


@dataclass(frozen=True, slots=True)
class InstructionStep(Step):
    """Compute a product of matrices by a tensor instruction, `rows` by `columns` calls at a time.

    Not one of Ansor's. Stages before the stage hold the packed operands and the tiles, and for AMX
    what the tiles are stored to; the stage becomes a copy of the tiles
    (`Schedule.use_instruction`).
    """

    code: ClassVar[str] = "TI"
    instruction: str
    rows: int
    columns: int
    pack_a: bool = False
    over: bool = False


@dataclass(frozen=True, slots=True)
class MatrixTilesStep(Step):
    """Compute a matrix product by a tensor instruction of a GPU (`Schedule.matrix_tiles`).

    Not one of Ansor's. It inserts six stages before the stage, four for `wgmma`. All of them, the
    stage and the stage `writer_id` (the stage itself where nothing is fused) get their loops.
    `sizes` are those of a MatrixTile; `stages` is 0 while still to be chosen.
    """

    code: ClassVar[str] = "XM"
    writer_id: int
    instruction: str
    sizes: tuple[int, ...]
    stages: int
    swizzle: bool


STAGE_INSERTING = (CacheReadStep, CacheWriteStep, RfactorStep, InstructionStep, MatrixTilesStep)


def packed_stages(step: InstructionStep) -> int:
    """The number of stages that an instruction has before its tiles: A, B, and the sum that an
    offset of A adds."""
    name = step.instruction
    return 1 + step.pack_a + (name.startswith("vpdpbusd.") and name.endswith(".s8"))


def inserted_stages(step: Step) -> int:
    """The number of stages that the step inserts before its own stage (CHR: after it)."""
    if isinstance(step, MatrixTilesStep):
        return 4 if step.instruction.startswith("wgmma.") else 6
    if isinstance(step, InstructionStep):
        return packed_stages(step) + 1 + step.instruction.startswith("amx.")  # AMX stores its tiles
    return int(isinstance(step, STAGE_INSERTING))


def id_before(step: Step, stage_id: int) -> int:
    """The id that the stage `stage_id` had before the step; for a new stage, the step's own."""
    if step.stage_id >= stage_id or not isinstance(step, STAGE_INSERTING):
        return stage_id
    return max(step.stage_id, stage_id - inserted_stages(step))


# The kinds of the fields after the code, as written in a record.
_FIELDS: dict[type[Step], tuple[str, ...]] = {
    AnnotationStep: ("id", "id", "annotation"),
    FuseStep: ("id", "ids"),
    PragmaStep: ("id", "id", "text"),
    ReorderStep: ("id", "ids"),
    SplitStep: ("id", "id", "extent", "lengths", "flag"),
    FollowSplitStep: ("id", "id", "id", "count"),
    FollowFusedSplitStep: ("id", "id", "ids", "id", "flag"),
    StorageAlignStep: ("id", "id", "int", "int"),
    ComputeAtStep: ("id", "id", "id"),
    ComputeInlineStep: ("id",),
    ComputeRootStep: ("id",),
    CacheReadStep: ("id", "text", "ids"),
    CacheWriteStep: ("id", "text"),
    RfactorStep: ("id", "id", "id"),
    InstructionStep: ("id", "text", "count", "count", "flag", "flag"),
    MatrixTilesStep: ("id", "id", "text", "sizes", "count", "flag"),
}
_SHARED: dict[bytes, Step] = {}
_MOST_SHARED = 1 << 16

# Thousands of candidates have equal steps of these kinds: equal ones are one object.
shared_annotation = lru_cache(maxsize=4096)(AnnotationStep)
shared_fusion = lru_cache(maxsize=4096)(FuseStep)
shared_pragma = lru_cache(maxsize=4096)(PragmaStep)
_split = lru_cache(maxsize=_MOST_SHARED)(SplitStep)
_MOST = 2**63 - 1
STEP_CODES: dict[str, type[Step]] = {cls.code: cls for cls in _FIELDS}


def step_from_json(values: Sequence[Any]) -> Step:
    """The step that a record's array represents.

    Raises ConfigError naming the step code, the field and what was expected.
    """
    if not isinstance(values, list | tuple) or not values:
        raise ConfigError(f"a step must be a non-empty array, found {values!r}")
    cls = STEP_CODES.get(values[0]) if isinstance(values[0], str) else None
    if cls is None:
        raise ConfigError(f"unknown step {values[0]!r}: expected one of {', '.join(STEP_CODES)}")
    kinds = _FIELDS[cls]
    if cls is InstructionStep and len(values) == len(kinds):
        values = [*values, 0]  # an older record: `over` did not exist
    if len(values) != len(kinds) + 1:
        raise ConfigError(
            f"step {cls.code} needs {len(kinds)} values after the code, "
            f"found {len(values) - 1}: {list(values)!r}"
        )
    names = [f.name for f in fields(cls)]
    decoded = [
        _decode(kind, value, f"step {cls.code}, {name}")
        for kind, value, name in zip(kinds, values[1:], names, strict=True)
    ]
    return cls(*decoded)


def steps_from_json(records: Iterable[Sequence[Any]]) -> tuple[Step, ...]:
    """The steps of a record's list; ConfigError when one is malformed.

    Equal steps are one object, because the steps of a large file repeat.
    """
    return tuple(map(_shared, records))


def _shared(values: Sequence[Any]) -> Step:
    try:
        written = marshal.dumps(list(values), 2)  # tells 1, 1.0 and True apart
    except (TypeError, ValueError):  # not a JSON value
        return step_from_json(values)
    step = _SHARED.get(written)
    if step is None:
        step = step_from_json(values)
        if len(_SHARED) >= _MOST_SHARED:
            _SHARED.clear()
        _SHARED[written] = step
    return step


def steps_to_json(steps: Iterable[Step]) -> list[JsonStep]:
    """The list of arrays that represents `steps` in a record."""
    return [step.to_json() for step in steps]


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        if None in value:
            raise ValueError(f"a split length has not been chosen yet: {value}")
        return list(value)
    if value is None:  # an undefined extent
        return 0
    return value if isinstance(value, str) else int(value)


def _decode(kind: str, value: Any, where: str) -> Any:
    if kind == "text":
        if not isinstance(value, str):
            raise ConfigError(f"{where}: expected a string, found {value!r}")
        return value
    if kind == "sizes" and (not isinstance(value, list | tuple) or len(value) != 5):
        raise ConfigError(f"{where}: expected an array of 5 integers, found {value!r}")
    if kind in ("ids", "lengths", "sizes"):
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where}: expected an array of integers, found {value!r}")
        least = 0 if kind == "ids" else 1
        return tuple(_integer(v, least, where) for v in value)
    if kind == "flag":
        if value in (0, 1):
            return bool(value)
        raise ConfigError(f"{where}: expected 0 or 1, found {value!r}")
    if kind == "annotation":
        number = _integer(value, 0, where)
        if number > Annotation.TENSORIZE:
            raise ConfigError(f"{where}: expected an annotation from 0 to 11, found {value!r}")
        return Annotation(number)
    if kind == "extent":
        return _integer(value, 0, where) or None
    return _integer(value, {"id": 0, "count": 1}.get(kind), where)


def _integer(value: Any, least: int | None, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{where}: expected an integer, found {value!r}")
    if least is not None and value < least:
        raise ConfigError(f"{where}: expected at least {least}, found {value}")
    if not -_MOST <= value <= _MOST:
        raise ConfigError(f"{where}: expected a number of 64 bits, found {str(value)[:40]}...")
    return value
