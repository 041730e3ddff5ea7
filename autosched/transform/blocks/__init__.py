"""Passes that lower blocks to flat TIR: initialisation, placement and size of buffers, views."""
