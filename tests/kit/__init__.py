"""What several tests need: statements built by hand, stand-ins for machines, readable results.

Imported as `kit`: pytest puts `tests/` on the path (pyproject.toml).
"""
