"""Helpers that several tests share: hand-built statements, stand-ins for machines, text output.

Imported as `kit`: pytest puts `tests/` on the path (pyproject.toml).
"""
