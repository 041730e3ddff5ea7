"""From blocks to flat TIR: initialisation, where buffers live and how large, views, indices."""
