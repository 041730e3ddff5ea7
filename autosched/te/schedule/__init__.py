"""Schedules: how a tensor program is computed, with stages and schedule primitives."""
