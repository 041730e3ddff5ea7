"""Passes that make functions of the host callable: packed arguments, the runtime's calls."""
