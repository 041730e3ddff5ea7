"""Passes for types in which the hardware cannot compute."""
