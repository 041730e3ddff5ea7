"""Worker processes and Ctrl-C: what measuring and searching both stand on."""
