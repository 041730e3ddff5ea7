"""The pass infrastructure: passes, the context they run under, and instruments."""
