"""Passes that make vectors and keep accumulators in registers."""
