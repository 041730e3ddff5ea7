"""Measure on the nodes of a Ray cluster; only `ray_link` imports Ray."""
