"""Progress lines, and what the best kernel is compared with."""

import pytest

from autosched.cli.peer import Peer, peer_of
from autosched.cli.progress import make_observer, status_text
from autosched.task import Task
from measure.records import Record
from measure.result import MeasureResult
from search.quality import Quality
from search.tuner import Progress

TASK = Task.from_workload("matmul", M=8, N=8, K=8)
BEST = Record(TASK.to_json(), (), MeasureResult((1e-6,)))


def test_status():
    progress = Progress(TASK, 8)
    assert status_text(progress) == "no valid candidate yet"
    progress.best = BEST
    progress.quality.append(Quality(0.75, 0.5, 8))
    progress.failures["run crash"] = 2
    assert status_text(progress) == "best 1 us 1.024 GFLOP/s, model 0.75, 2 failed"


def test_a_line_after_every_batch(capfd):
    progress = Progress(TASK, 8, done=4, best=BEST)
    with make_observer(quiet=False) as observer:
        observer(progress, ())
        observer(progress, [BEST])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "4/8 trials, best 1 us" in lines[0]


def test_several_tasks_are_counted_together(capfd):
    other = Task.from_workload("matmul", M=8, N=8, K=16)
    with make_observer(quiet=False, trials=20, names=True) as observer:
        observer(Progress(TASK, 8, done=4), [BEST])
        observer(Progress(other, 8, done=6), [BEST])
    lines = capfd.readouterr().err.splitlines()
    assert "4/20 trials, matmul(M=8, N=8, K=8): " in lines[0]
    assert "10/20 trials, matmul(M=8, N=8, K=16): " in lines[1]


def test_quiet(capfd):
    with make_observer(quiet=True) as observer:
        observer(Progress(TASK, 8), [BEST])
    assert capfd.readouterr() == ("", "")


def test_peers():
    peer = Peer("numpy.matmul", 2e-6, 1e-6)
    assert peer.share == 2.0
    assert peer.text.startswith("2.00 of numpy.matmul")
    assert peer.to_json()["share"] == 2.0
    softmax = Task.from_workload("softmax", M=4, N=4)
    assert peer_of(softmax, None, BEST) is None


@pytest.mark.parametrize("name", ["matmul", "batch_matmul"])
def test_only_matmuls_have_one(name, monkeypatch):
    sizes = {"M": 4, "N": 4, "K": 4} | ({"B": 2} if name == "batch_matmul" else {})
    task = Task.from_workload(name, **sizes)

    class Runner:
        def compare_with_numpy(self, task, artifact):
            return 3e-6, 1e-6

    class Measurer:
        runner = Runner()

    found = peer_of(task, Measurer(), BEST)
    assert (found.name, round(found.share)) == ("numpy.matmul", 3)
