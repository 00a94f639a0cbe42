"""From a body in plain Python to machine code that is kept on disk."""
