"""The Python front door: tune a task, build its best kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.driver import build_steps
from autosched.errors import ConfigError, MeasureError
from autosched.features.sets import TUNING
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record, RecordLog, read_log
from autosched.measure.runner import RunOptions
from autosched.runtime.cpu import CpuKernel, load
from autosched.search.cost_model import make_cost_model
from autosched.search.learner import Learner
from autosched.search.options import SearchOptions
from autosched.search.pretrained import start_pretrained
from autosched.search.rules.protocol import SketchRule
from autosched.search.tuner import Observer, TuneOptions, Tuner
from autosched.state.steps import Step
from autosched.task import Task


@dataclass(frozen=True, slots=True)
class TunedKernel:
    """The best candidate of a run."""

    task: Task
    record: Record

    @property
    def seconds(self) -> float:
        """Seconds per call: the lower quartile of the repeats."""
        return self.record.result.cost

    @property
    def steps(self) -> tuple[Step, ...]:
        """The transform steps: the candidate itself."""
        return self.record.steps

    def build(self) -> CpuKernel:
        """The kernel, callable on NumPy or DLPack arrays: inputs, then outputs (written in place).

        With a layout rewrite for pre-transformed inputs, `kernel.prepare` stores those as it
        expects them.

        Raises CompileError when code generation refuses it.
        """
        task = self.task
        return load(build_steps(task.dag, self.record.steps, task.target, layout=task.layout))


@dataclass(frozen=True, slots=True)
class Tuned:
    """What `tune` found: the best kernel and every record, in the order of measuring."""

    best: TunedKernel
    records: list[Record]


def tune(
    task: Task,
    *,
    trials: int = 64,
    records: str | Path | None = None,
    seed: int = 0,
    batch: int = 16,
    time_budget_s: float | None = None,
    cost_model: str = "xgboost",
    features: str = TUNING,
    pretrained: bool = True,
    search: SearchOptions | None = None,
    measure: RunOptions | None = None,
    sketch_rules: Sequence[SketchRule] = (),
    observer: Observer | None = None,
) -> Tuned:
    """Measure `trials` candidates of `task` and return the best.

    With `records`, every result is appended to that file, and records of this task that it holds
    already are learned from and not measured again. `sketch_rules` are tried before the built-in
    ones (see `autosched.search.rules.protocol`). `features` is the feature set that the cost model
    learns from; with `pretrained` it starts from the one that comes with autosched. Raises
    MeasureError when nothing valid was measured, ConfigError when a setting is wrong.
    """
    for name, value, least in (("trials", trials, 1), ("batch", batch, 1), ("seed", seed, 0)):
        if value < least:
            raise ConfigError(f"{name}: expected at least {least}, found {value}")
    earlier: Sequence[Record] = ()
    if records is not None and Path(records).is_file():
        earlier = [r for r in read_log(records).records if r.task["key"] == task.key]
    options = TuneOptions(
        trials=trials,
        batch=batch,
        seed=seed,
        time_budget_s=time_budget_s,
        cost_model=cost_model,
        features=features,
        search=search or SearchOptions(),
        sketch_rules=tuple(sketch_rules),
    )
    log = None if records is None else RecordLog(records)
    learner = Learner(make_cost_model(cost_model, seed))
    if pretrained:
        start_pretrained(learner.model, task.target.kind, features)
    with Measurer.create(options=measure) as measurer:
        result = Tuner(task, options, measurer, log, earlier, observer, learner=learner).run()
    if result.interrupted:
        raise KeyboardInterrupt
    if result.best is None:
        failures = "; ".join(f"{n} x {kind}" for kind, n in result.progress.failures.items())
        raise MeasureError(f"no candidate was valid: {failures or result.reason}", stage="run")
    return Tuned(TunedKernel(task, result.best), result.records)
