"""`autosched tune`: search, measure, report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from autosched.cli.asked import Asked
from autosched.cli.config import Config
from autosched.cli.console import err, warn
from autosched.cli.files import require_named
from autosched.cli.tune_many_report import report_many
from autosched.cli.tune_report import report
from autosched.cli.tune_settings import (
    ManyFlags,
    ModelFlags,
    Overrides,
    on_hosts,
    records_path,
    require_unread,
    session_of,
    settings_of,
)
from autosched.display.progress import make_observer
from autosched.display.task_table import TaskTable, short_names
from autosched.needed import XGBOOST, as_if_missing, needed
from autosched.process.interrupt import interrupt_arrived, interrupts_held
from autosched.search.task_scheduler import ScheduleResult
from autosched.session.session import Session
from autosched.session.yardsticks import Yardsticks, compare
from autosched.words import count

Report = Callable[[], None]

EXIT_FAILED = 2
EXIT_NOTHING_VALID = 3
EXIT_INTERRUPTED = 130


def run(
    asked: Asked,
    overrides: Overrides,
    model: ModelFlags,
    many: ManyFlags,
    *,
    fresh: bool,
    dry_run: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Tune the requested workloads; docs/configuration.md has the exit statuses.

    Several workloads are tuned together, with one record file.
    """
    configs = [on_hosts(config, overrides.hosts) for config in asked.configs(overrides.target)]
    many.of(configs)
    if dry_run:
        from autosched.cli.dry_run import show_all

        tasks = [(config.task(), settings_of(config, overrides).options()) for config in configs]
        timeout = configs[0].measure.build_timeout_s
        if not show_all(tasks, as_json=as_json, samples=overrides.trials, build_timeout=timeout):
            sys.exit(EXIT_NOTHING_VALID)
        return
    _, saved = model.files(configs[0])
    require_named(("--save-model", saved))
    path = records_path(configs, overrides, fresh=fresh)
    require_unread(asked.files(), path, saved)
    session = session_of(configs, overrides, model, many, path, force=force)
    if all(config.cost_model.kind == "xgboost" for config in configs):
        _import_xgboost()
    tune = _one if len(configs) == 1 else _several
    with interrupts_held():  # except in the parts of a run that lose nothing then
        result, show = tune(configs, session, path, as_json=as_json)
        interrupted = interrupt_arrived()
    try:
        show()
    finally:
        session.save_model()
    if result.interrupted or interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if result.failed:
        sys.exit(EXIT_FAILED)
    if all(task.best is None for task in result.tasks):
        sys.exit(EXIT_NOTHING_VALID)


def _import_xgboost() -> None:
    """Import XGBoost without scikit-learn, which it would import: that takes eight times as long.

    A model of the user's own may need both.
    """
    with as_if_missing("sklearn"):
        needed("xgboost", XGBOOST)


def _one(
    configs: Sequence[Config], session: Session, path: Path, *, as_json: bool
) -> tuple[ScheduleResult, Report]:
    """The result of one task, and what prints it."""
    task = session.jobs[0].task
    if not as_json:
        warn(f"tuning {task.name} on {task.target}{_continuing(session)}")
    result, known = session.before(), Yardsticks(missing="the run was interrupted")
    with suppress(KeyboardInterrupt), session:  # which is raised while the session starts only
        measurer = session.measurer
        with make_observer(
            quiet=as_json,
            console=err,
            trials=session.trials,
            peak_of=measurer.peak,
            time_budget_s=session.jobs[0].options.time_budget_s,
        ) as observer:
            result = session.run(observer)
            finals = session.finals(result)
            best = result.tasks[0].best
            if best is None:
                known = Yardsticks(missing="no candidate was measured successfully")
            elif result.interrupted or result.failed:
                ended = "was interrupted" if result.interrupted else "ended early"
                known = Yardsticks(missing=f"the run {ended}")
            elif task.key not in finals:
                known = Yardsticks(missing="interrupted")
            else:
                known = compare(task, measurer, best, finals[task.key])
    of_one = partial(report, result.tasks[0], path, known, session.others, as_json=as_json)
    return result, of_one


def _several(
    configs: Sequence[Config], session: Session, path: Path, *, as_json: bool
) -> tuple[ScheduleResult, Report]:
    """The result of several tasks, and what prints it."""
    tasks = [job.task for job in session.jobs]
    names = short_names([config.name for config in configs])
    table = TaskTable([task.key for task in tasks], names, [job.weight for job in session.jobs])
    if not as_json:
        trials = count(session.trials, "trial")
        warn(f"tuning {len(tasks)} tasks, {trials}{_continuing(session)}:")
        for name, task in zip(names, tasks, strict=True):
            warn(f"  {name}: {task.name} on {task.target}")
    result = session.before()
    known: dict[str, Yardsticks] = {}
    with (
        suppress(KeyboardInterrupt),  # which is raised while the session starts only
        session,
        make_observer(
            quiet=as_json,
            console=err,
            trials=session.trials,
            table=table,
            peak_of=session.measurer.peak,
            time_budget_s=session.jobs[0].options.time_budget_s,
        ) as observer,
    ):
        result = session.run(observer)
        known.update(session.compared(result, session.finals(result)))
    return result, partial(
        report_many,
        result,
        table,
        path,
        known,
        session.others,
        own_objective=session.own_objective,
        as_json=as_json,
    )


def _continuing(session: Session) -> str:
    text = f", continuing from {count(session.known, 'record')}" if session.known else ""
    return "; ".join([text, *filter(None, (session.others, session.ended_sooner))])
