"""Features of each store of a candidate, for the cost model and for datasets."""
