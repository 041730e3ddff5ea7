"""Names of TVM's auto_scheduler say what to write instead."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import autosched
from autosched.ansor_names import OF_ANSOR

PAGE = Path(__file__).resolve().parent.parent / "docs" / "from_ansor.md"


@pytest.mark.parametrize("name", OF_ANSOR)
def test_a_remedy_is_there(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; write ") as error:
        getattr(autosched, name)
    for path in re.findall(r"autosched((?:\.\w+)+)", str(error.value)):
        *modules, last = path[1:].split(".")
        if modules != ["torch"]:
            owner = autosched
            for part in [*modules, last]:
                if not hasattr(owner, part):
                    importlib.import_module(f"{owner.__name__}.{part}")
                owner = getattr(owner, part)


def test_the_guide_has_every_name() -> None:
    """But that of what writes records, which nobody needs who has a file."""
    text = PAGE.read_text()
    assert [name for name in OF_ANSOR if f"`{name}" not in text] == ["save_records"]


def test_other_names_import_nothing() -> None:
    """Python itself asks modules for names that they may lack."""
    asked = "hasattr(autosched, '__wrapped__'), hasattr(autosched, 'SearchTask')"
    probe = f"import sys, autosched; {asked}; print('autosched.te' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
