"""Show a run to people: in a terminal, in a notebook, as a table, a chart or a data frame."""
