"""Faster forms of rules that play the same arms to the bit, each with the proof of equality.

A rule compares all arms in every period. While one arm is played, the other arms' indices change slowly or not at
all, so that most comparisons can be left out. `prepare` takes the form that is registered with `fast_form` in place
of a rule; `Batched`, where several arms change at once, takes the rule. Tests compare both with the literal rules.
"""
