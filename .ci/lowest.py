"""The lowest version of each package that autosched allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for requirement in (*project["dependencies"], *extras["data"], *extras["report"]):
    name, lowest = re.match(r"([\w.-]+)>=([\d.]+)", requirement).groups()
    print(f"{name}=={lowest}")
