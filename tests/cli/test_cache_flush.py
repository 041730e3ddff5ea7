"""What the commands say of times that were taken with empty caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autosched.measure.record_log import RecordLog
from kit.cli import Cli, MakeRecord

SEARCH = """\
search: {sample_init_min_population: 4, evolutionary_search_population: 4,
  evolutionary_search_num_iters: 1}
cost_model: {kind: random}
"""


@pytest.fixture
def mixed(tmp_path: Path, record: MakeRecord) -> Path:
    """A slow record with warm caches and a faster one with empty ones."""
    warm, cold = record(1e-3), record(1e-4, ())
    path = tmp_path / "mixed.jsonl"
    cold = replace(cold, result=replace(cold.result, cache_flush=4096))
    RecordLog(path).append([cold, warm])
    return path


def test_the_best_was_timed_without(cli: Cli, mixed: Path) -> None:
    note = "1 timed with another measure.cache_flush left out; --index takes them"
    done = cli("show", mixed, "--as", "steps")
    assert note in done.err
    assert done.out == cli("show", mixed, "--as", "steps", "--index", "1").out
    done = cli("records", "info", mixed)
    assert "best 1 ms" in done.out
    assert "empty caches" not in done.out


def test_each_is_replayed_as_it_was_timed(cli: Cli, mixed: Path) -> None:
    done = cli("replay", mixed, "--all", "--no-check")
    assert done.status == 0, done.err
    assert ["with empty caches" in line for line in done.out.splitlines()] == [True, False]


def test_ansors_format_cannot_say_it(cli: Cli, mixed: Path) -> None:
    done = cli("records", "convert", mixed, "-o", "a.v06", "--to", "ansor-v0.6")
    assert (
        "1 record timed with empty caches, which the format of Ansor v0.6 cannot express"
        in done.err
    )


def test_a_run_says_how_it_times(cli: Cli, config: Path) -> None:
    text = (
        config.read_text()
        + SEARCH
        + "measure: {cache_flush: 4 KiB, min_repeat_ms: 1, workers: 1}\n"
    )
    config.write_text(text)
    done = cli("tune", config, "--trials", "2")
    assert "caches    emptied before each call: 4 KiB written" in done.out
    assert "timed in turns in one process, each call with empty caches" in done.out
    info = cli("records", "info", "mm.jsonl")
    assert "with empty caches" in info.out
    config.write_text(text.replace("4 KiB", "8 KiB"))
    done = cli("tune", config, "--trials", "1")
    assert "2 records timed with another measure.cache_flush train the model only" in done.err
