"""Which buffers may share memory."""
