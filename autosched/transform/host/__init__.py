"""Passes that make host functions callable: packed arguments and calls of the runtime."""
