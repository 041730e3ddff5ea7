"""The programs of docs/python.md run, one after the other, with nothing measured."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.session import session
from kit.measurer import StubMeasurer


@pytest.mark.filterwarnings("error")
def test_the_page_runs_as_it_stands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 9
    monkeypatch.setattr(session, "Measurer", StubMeasurer())
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        for size in ("512", "256"):
            block = block.replace(size, "16")
        for trials in ("trials=128", "trials=64", "trials=16"):
            block = block.replace(trials, "trials=4")
        exec(block.replace("k in (16, 16)", "k in (8, 16)"), names)
    np.testing.assert_allclose(names["c"], 16.0)
    assert len(names["kernels"]) == 2
    assert len(names["candidates"]) == 64
