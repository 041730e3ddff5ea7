"""Export of kernels for users without autosched: libraries, cubins, and modules that load them."""
