"""Adapters: other libraries, used through the interfaces of sameluck."""
