"""Configuration files: what is accepted, and how the rest is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.cli.config import Config
from autosched.cli.read_config import load_config
from autosched.cli.tune_settings import settings_of
from autosched.errors import ConfigError
from autosched.features.sets import FEATURE_SETS
from autosched.measure.flush import all_caches
from autosched.search.options import SearchOptions
from autosched.workloads.source import SOURCES

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
WORKLOAD = "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\n"


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """text -> the path of a configuration file that holds it."""

    def write(text: str, name: str = "mine.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_configuration_of_the_repository_is_valid(path: Path) -> None:
    config = load_config(path)
    assert config.name
    assert config.task().dag.flop_count != 0


@pytest.mark.parametrize("name", ["", "name:\n", "name: ''\n"])
def test_defaults(written: Callable[..., Path], name: str) -> None:
    config = load_config(written(WORKLOAD + name))
    assert config.name == "mine"
    assert config.records_path() == Path("mine.jsonl")
    assert (config.search.trials, config.search.batch) == (64, 16)
    assert (config.cost_model.kind, config.cost_model.file, config.weight) == ("xgboost", None, 1)
    for name in SearchOptions.__dataclass_fields__:
        assert getattr(config.search, name) == getattr(SearchOptions(), name)


def test_hardware_limits_can_be_overridden(written: Callable[..., Path]) -> None:
    text = WORKLOAD + "target: {kind: cuda, arch: sm_90, hardware: {max_threads_per_block: 256}}\n"
    target = load_config(written(text)).task().target
    assert (target.kind, target.arch) == ("cuda", "sm_90")
    assert target.hardware.max_threads_per_block == 256
    assert target.hardware.warp_size == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WORKLOAD + "serach: {}\n", r"mine\.yaml:2: unknown key 'serach'.*'search'"),
        (WORKLOAD + "search: !!omap [trails: 3]\n", r":2: unknown key 'search.trails'"),
        (WORKLOAD + "search:\n  trails: 3\n", r":3: unknown key 'search.trails'.*'trials'"),
        (WORKLOAD + "search: {trials: many}\n", r":2: search\.trials: .*found text 'many'"),
        (WORKLOAD + "search: {trials: 0}\n", r"greater than 0, found 0"),
        (WORKLOAD + 'records: "a\\0"\n', r":2: records: expected the path of a file, found"),
        (WORKLOAD + 'cost_model: {file: "\\0"}\n', r":2: cost_model\.file: expected the path of"),
        (
            WORKLOAD + "search: {trials: 9999999999}\n",
            r"trials: .*less than or equal to 2147483647",
        ),
        (
            WORKLOAD + f"search: {{evolutionary_search_population: {10**30}}}\n",
            r"population: .*less than or equal to 2147483647",
        ),
        (WORKLOAD + "measure: {workers: 100000}\n", r"workers: .*less than or equal to 1024"),
        (WORKLOAD + "search: {eps_greedy: 2.0}\n", r"eps_greedy: .*less than or equal to 1"),
        (
            WORKLOAD + "search: {cpu_multi_level_tiling_structure: SXR}\n",
            r"only the letters S and R",
        ),
        (WORKLOAD + "target: {kind: tpu}\n", r"'cpu' or 'cuda', found text 'tpu'"),
        (WORKLOAD + "target: {kind: cuda, hardware: {warp_size: 0}}\n", r"warp_size: .*found 0"),
        (
            WORKLOAD + "target:\n  tf32: true\n",
            r":3: target\.tf32: expected a target of kind cuda, found cpu; leave it out",
        ),
        *(
            (
                WORKLOAD + f"target:\n  kind: cuda\n  arch: {arch}\n",
                rf":4: target\.arch: found '{arch}', expected {expected}",
            )
            for arch, expected in (
                ("sm90", "sm_ and a number: sm_80"),
                ("compute_90", "sm_ and a number: sm_80"),
                ("sm_90f", "'f' from sm_100 on; write sm_90"),
            )
        ),
        (
            WORKLOAD + "target: {kind: cuda, arch: sm_75, tf32: true}\n",
            r":2: target\.tf32: expected an architecture from sm_80 on, found sm_75; leave it out",
        ),
        (
            WORKLOAD + "search: {}\ntarget:\n  threads: 999\n",
            r":4: target\.threads: expected at most \d+, the hardware threads of .* found 999",
        ),
        (WORKLOAD + "target: {hardware: {num_cores: -3}}\n", r"num_cores: .*greater than 0"),
        (WORKLOAD + "measure: {timeout_s: .inf}\n", r"timeout_s: expected a finite number"),
        (WORKLOAD + "measure: {timeout_s: 1e9}\n", r"less than or equal to 86400"),
        *(
            (
                WORKLOAD + f"measure:\n  cache_flush: {value}\n",
                r":3: measure.cache_flush: expected true, false, or bytes such as 67108864 or 64 M",
            )
            for value in ("often", "-1", "1.5", "64 MB", "[1]", "null")
        ),
        (WORKLOAD + "search: {time_budget_s: .nan}\n", r"time_budget_s: expected"),
        (WORKLOAD + "weight: -1.0\n", r"weight: .*greater than 0"),
        *(
            (WORKLOAD + f"name: {value}\n", r":2: name: expected text")
            for value in ("0", "false", "[]", "{}", "7")
        ),
        ("search: {}\n", r"the key 'workload' is missing, e.g. workload: {op:"),
        (WORKLOAD + "search: {seed: -1}\n", r":2: search.seed: .*equal to 0, found -1"),
        ("workload: {op: matmul, expr: x}\n", r"exactly one of op, expr, einsum, python"),
        ("workload: {op: matmull, args: {}}\n", r":1: .*matmull"),
        ("workload: {op: matmul, args: {M: -4, N: 8, K: 8}}\n", r":1: .*M"),
        *(
            (f"workload: {{op: relu}}\n{line}\n", rf":2: {place}: expected {words}$")
            for line, place, words in (
                (
                    "inputs: {A: {integers: [0, .inf]}}",
                    r"inputs\.A\.integers",
                    r"a finite number, text or two finite numbers \[low, high\], found \[0, inf\]",
                ),
                *(
                    (
                        f"inputs: {{A: {{constant: {value}}}}}",
                        r"inputs\.A\.constant",
                        rf"a finite number, text or two finite .*, found {re.escape(value)}",
                    )
                    for value in (".inf", "-.inf", ".nan")
                ),
                (
                    "inputs: {A: {1: true}}",
                    r"inputs\.A\.1",
                    r"a finite number, text or two finite numbers \[low, high\], found true",
                ),
                (
                    "measure: {devices: 3.5}",
                    r"measure\.devices",
                    "all, or a list of numbers and UUIDs, found 3.5",
                ),
            )
        ),
        ("workload: {op: matmul, args: {M: [1]}}\n", r"an integer or a type's name, found \[1\]$"),
        ("workload: {expr: x, dtype: {A: 3}}\n", r"dtype: expected a type, or .* found {'A': 3}$"),
        (
            WORKLOAD + "name: 2026-01-31\n",
            r":2: name: expected text .*, found the date 2026-01-31$",
        ),
        (WORKLOAD + "search: {trials: !many 64}\n", r":2: search\.trials: .*found text '64'$"),
        (
            WORKLOAD + "---\n" + WORKLOAD,
            r":2: not valid YAML: expected a single document .*, but f",
        ),
        ("workload: [\n", r"not valid YAML"),
        ("", r"found an empty file"),
        ("- 1\n", r"expected keys"),
    ],
)
def test_bad_files_are_explained(written: Callable[..., Path], text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(written(text))


def test_the_page_names_each_way_to_say_what_to_compute() -> None:
    text = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    *others, last = (f"`{key}`" for key in SOURCES)
    assert f"\nExactly one of {', '.join(others)} and {last}.\n" in text


def test_set_replaces_no_value_that_an_alias_stands_for(written: Callable[..., Path]) -> None:
    text = WORKLOAD + "inputs: {A: &alike {uniform: [0, 1]}, B: *alike}\n"
    inputs = load_config(written(text), ["inputs.B.uniform=[2, 3]"]).inputs
    assert inputs == {"A": {"uniform": [0.0, 1.0]}, "B": {"uniform": [2.0, 3.0]}}


def test_text_may_be_tagged_as_text(written: Callable[..., Path]) -> None:
    assert load_config(written(WORKLOAD + "name: !!str 17\n")).name == "17"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_config(tmp_path / "none.yaml")


def test_yaml_is_not_evaluated(written: Callable[..., Path], tmp_path: Path) -> None:
    target = tmp_path / "touched"
    text = f"name: !!python/object/apply:os.mkdir ['{target}']\n{WORKLOAD}"
    with pytest.raises(ConfigError):
        load_config(written(text))
    assert not target.exists()


def test_a_json_schema_can_be_published() -> None:
    schema = json.dumps(Config.model_json_schema())
    assert "evolutionary_search_population" in schema


def test_the_documented_settings_are_the_defaults(written: Callable[..., Path]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "searching.md").read_text()
    block = text.split("```yaml\n")[1].split("```")[0]
    documented, default = load_config(written(WORKLOAD + block)), load_config(written(WORKLOAD))
    assert documented == default
    for name in type(default.search).model_fields:
        assert f"  {name}: " in block


def test_every_feature_set_can_be_chosen(written: Callable[..., Path]) -> None:
    for name in FEATURE_SETS:
        config = load_config(written(f"{WORKLOAD}cost_model: {{features: {name}}}\n"))
        assert settings_of(config).options().features == name
    with pytest.raises(ConfigError, match=r"cost_model.features: expected 'ansor-0.19' or 'autos"):
        load_config(written(f"{WORKLOAD}cost_model: {{features: ansor}}\n"))


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("false", 0), ("64 MiB", 2**26), ("4096", 4096), ("true", all_caches()), ("0", 0)],
)
def test_caches_can_be_flushed(written: Callable[..., Path], text: str, bytes_: int) -> None:
    config = load_config(written(f"{WORKLOAD}measure: {{cache_flush: {text}}}\n"))
    assert config.measure.run_options().flush_bytes == bytes_
