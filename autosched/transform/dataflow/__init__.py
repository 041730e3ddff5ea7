"""Dataflow analysis of memory: regions, known values, dead stores."""
