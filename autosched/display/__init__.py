"""What people see of a run: in a terminal, in a notebook, as a table, a chart or a data frame."""
