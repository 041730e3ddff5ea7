"""The feature set `autosched-1`: a prediction of the code that each store becomes."""
