"""Passes for types that the hardware does not compute in."""
