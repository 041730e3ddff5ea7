"""Analyses of a lowered candidate that feature sets share: scopes, accesses, regions, strides."""
