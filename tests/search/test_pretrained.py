"""The cost model that comes with autosched."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.features.sets import ANSOR, TUNING, feature_set
from autosched.search import pretrained
from autosched.search.cost_model import RandomModel, XGBoostModel
from autosched.search.featurize import task_featurizer
from autosched.search.pretrained import pretrained_model, start_pretrained
from kit.types import MakeSpace, MakeTask

SHIPPED = sorted(p.name for p in Path(pretrained.__file__).parent.glob("*.ubj.gz"))


@pytest.mark.parametrize("kind", [name.partition("-")[0] for name in SHIPPED])
def test_it_is_for_the_features_of_this_version(
    kind: str, make_task: MakeTask, make_space: MakeSpace
) -> None:
    """A new version of the features needs benchmarks/pretrain.py to be run again."""
    model = XGBoostModel()
    assert start_pretrained(model, kind, TUNING)
    assert model.trained
    task = make_task("matmul", target=kind)
    space = make_space(task)
    candidates = space.sample(np.random.default_rng(0), 20)
    rows = [r for r in task_featurizer(task)(candidates) if r is not None]
    scores = model.predict(rows)
    assert np.isfinite(scores).all()
    assert scores.max() > 1.5 * scores.min()


def test_there_is_none_for_others() -> None:
    assert pretrained_model("cuda", ANSOR) is None
    assert not start_pretrained(XGBoostModel(), "cpu", ANSOR)
    assert not start_pretrained(RandomModel(), "cpu", TUNING)


def test_what_is_measured_corrects_it() -> None:
    """Targets relative to another best shift what the model expects, not its ranking."""
    rng = np.random.default_rng(0)
    rows = [rng.random((1, len(feature_set(TUNING).columns)), dtype=np.float32) for _ in range(40)]
    model = XGBoostModel(rounds=20)
    start_pretrained(model, "cpu", TUNING)
    speeds = [0.5 + 0.5 * float(row[0, 0]) for row in rows]
    model.fit(rows, speeds)
    assert np.mean(np.log(model.predict(rows) / speeds)) == pytest.approx(0, abs=0.2)


def test_a_damaged_compressed_file_is_refused(tmp_path: Path) -> None:
    path = pretrained_model("cpu", TUNING)
    assert path is not None
    whole = path.read_bytes()
    (tmp_path / "half.ubj.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match=r"cannot read the cost model .*half\.ubj\.gz"):
        XGBoostModel().load(tmp_path / "half.ubj.gz", checked=False)


FORKED = """
import os, signal
from autosched.search.cost_model import XGBoostModel
from autosched.search.pretrained import start_pretrained
start_pretrained(XGBoostModel(), "cpu", "autosched-1")
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(not start_pretrained(XGBoostModel(), "cpu", "autosched-1"))
raise SystemExit(os.waitpid(child, 0)[1] != 0)
"""


def test_a_forked_child_loads_it_too() -> None:
    """It waited for the threads of OpenMP that its parent had started, without end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", FORKED], env=environment, check=True)


THREADS = """
import ctypes
from pathlib import Path
import xgboost
from autosched.search.cost_model import XGBoostModel
from autosched.search.pretrained import start_pretrained
maps = Path("/proc/self/maps").read_text().splitlines()
paths = {line.split()[-1] for line in maps if "libgomp" in line}
asked = [ctypes.CDLL(path).omp_get_max_threads for path in paths]
assert {threads() for threads in asked} == {3}
assert start_pretrained(XGBoostModel(), "cpu", "autosched-1")
assert {threads() for threads in asked} == {3}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for libraries in /proc")
def test_the_threads_of_other_libraries_stay() -> None:
    """PyTorch had one thread in a program that had tuned: both ask one library of OpenMP."""
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", THREADS], env=environment, check=True)
