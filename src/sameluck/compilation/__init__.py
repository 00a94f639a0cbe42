"""Compilation of functions in plain Python to machine code that is kept on disk."""
