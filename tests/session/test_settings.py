"""One object says how a run goes, whoever asks for it."""

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import autosched
from autosched.cli.config import Config
from autosched.cli.read_config import load_config
from autosched.cli.tune_settings import ModelFlags, Overrides, settings_of
from autosched.cli.tuning_app import tune
from autosched.errors import ConfigError
from autosched.measure.run_options import RunOptions
from autosched.search.options import SearchOptions
from autosched.session.settings import TuneSettings
from autosched.task import Task
from kit.types import UseMeasurer


def test_tune_takes_and_shows_the_attributes_of_the_settings(task: Task) -> None:
    _, *arguments = inspect.signature(autosched.tune).parameters.values()
    assert arguments == list(inspect.signature(TuneSettings).parameters.values())
    documented = inspect.getdoc(TuneSettings) or ""
    assert not [each.name for each in arguments if f"    {each.name}: " not in documented]
    with pytest.raises(
        TypeError, match=r"tune\(\) has no argument 'trails'; did you mean 'trials'"
    ):
        autosched.tune(task, trails=4)  # type: ignore[call-arg]  # the point of the test


def test_the_command_line_asks_for_the_same(tmp_path: Path) -> None:
    path = tmp_path / "mm.yaml"
    path.write_text(
        "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\n"
        "search: {batch: 4, eps_greedy: 0.5}\ncost_model: {kind: random, pretrained: false}\n"
        "measure: {workers: 3, check: all, cache_flush: 4096, repeat: 2}\n"
    )
    flags = Overrides(trials=5, seed=7, time_budget=2.5, share=True)
    model = ModelFlags(save=tmp_path / "m.json", warm_start=[path])
    found = settings_of(load_config(path), flags, model)
    asked = TuneSettings(
        trials=5,
        seed=7,
        time_budget_s=2.5,
        share=True,
        batch=4,
        search=SearchOptions(eps_greedy=0.5),
        cost_model="random",
        pretrained=False,
        save_model=tmp_path / "m.json",
        warm_start=path,
        measure=RunOptions(repeats=2, cache_flush=4096),
        workers=3,
        check="all",
    )
    assert found.options() == asked.options()
    assert found.measure_options() == asked.measure_options()
    mine, theirs = found.model_options(), asked.model_options()
    assert (mine.model, mine.save, mine.warm_start) == (
        theirs.model,
        theirs.save,
        theirs.warm_start,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"devices": "first"}, "devices: expected a list of GPUs, or 'all', found 'first'"),
        ({"devices": [1.5]}, "devices: expected a list of GPUs"),
        ({"share": 1}, "share: expected True or False, found 1"),
        ({"fresh": "yes"}, "fresh: expected True or False, found 'yes'"),
        ({"force": None}, "force: expected True or False, found None"),
        (
            {"workloads": 5},
            "workloads: expected names and values, e.g. a Task, or one for each key",
        ),
        ({"workloads": {"d7b6": "matmul"}}, "workloads: d7b6: expected a Task, found 'matmul'"),
    ],
)
def test_what_only_the_command_line_could_ask_before(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        TuneSettings(**given)  # type: ignore[arg-type]  # wrong on purpose


def test_fresh_and_force(measurer: UseMeasurer, task: Task, tmp_path: Path) -> None:
    path, other = tmp_path / "mm.jsonl", tmp_path / "mm.yaml"
    other.write_text("workload: {op: matmul}\n")
    settings = TuneSettings(records=path, fresh=True)
    for name in ("mm.jsonl", "mm-2.jsonl", "mm-3.jsonl"):
        assert settings.record_file() == tmp_path / name
        if name == "mm-2.jsonl":
            run = autosched.tune(task, records=path, fresh=True, batch=4, trials=4)
            assert run.file == tmp_path / name
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=r"mm\.yaml: it is a YAML file"):
        autosched.tune(task, records=other, batch=4, trials=4, cost_model="random")
    done = autosched.tune(task, records=other, force=True, batch=4, trials=4, cost_model="random")
    assert len(done.records) == 4
    assert '"schema"' in other.read_text()


# What Python says in other words: a Task says what is computed and for what.
IN_OTHER_WORDS = {
    **dict.fromkeys(("config", "expr", "einsum", "shape", "dtype", "settings", "target"), "Task"),
    "time_budget": "time_budget_s",
    "ray": "hosts",
    "workload": "workloads",
    "dry_run": "search.space.SearchSpace",  # docs/python.md
    "trust": "trusting",
    "as_json": "to_pandas",
}
# Sections of a configuration that a setting has as a whole, and keys under other names.
SECTIONS = {
    "search": {f.name for f in fields(SearchOptions)},
    "measure": {f.name for f in fields(RunOptions)},
}
OTHER_KEYS = {
    "cost_model.kind": "cost_model",
    "cost_model.features": "features",
    "cost_model.pretrained": "pretrained",
    "cost_model.file": "save_model",
    "measure.timeout_s": "timeout",
    "measure.reference_timeout_s": "reference_timeout",
    "measure.repeat": "repeats",
    "measure.number": "repeats",  # has one value
}


def test_python_has_every_flag_and_key() -> None:
    """A new one must be added to TuneSettings, or above with what Python says instead."""
    ours = TuneSettings.__dataclass_fields__
    flags = set(inspect.signature(tune).parameters)
    missing = flags - set(ours) - set(IN_OTHER_WORDS)
    assert not missing
    for name in ("search", "measure", "cost_model"):
        for key in getattr(Config.model_fields[name].annotation, "model_fields", {}):
            known = OTHER_KEYS.get(f"{name}.{key}", key)
            assert known in {*ours, *SECTIONS.get(name, ())}, f"{name}.{key}"
