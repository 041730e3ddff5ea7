"""`autosched schema`: print the JSON Schema of configuration files."""

from __future__ import annotations

import json

from autosched.cli.config import Config
from autosched.cli.console import plain


def text() -> str:
    """The schema, indented, with a newline at the end."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Config.model_json_schema(),
        "title": "autosched configuration",
    }
    return json.dumps(schema, indent=2) + "\n"


def run() -> None:
    """Print the schema."""
    plain(text())
