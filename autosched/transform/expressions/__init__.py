"""Passes that rewrite expressions."""
