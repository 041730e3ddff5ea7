"""The feature set `autosched-1`: what the code generator will make of each store."""
