"""Policies: the rules that choose arms, one family per module; `fast` holds faster forms of some rules."""
