"""Checks of a running experiment's assumptions, never of the policies' ranking.

Each module judges one assumption: a pure function of arrays returns a `Check`, and a function registered with
`check.diagnostic` reads its rows from a `Snapshot`. A module added to this package is found by discovery; its
position in the output is the position of its name in `check.ORDER`.

A p-value below 0.01 gives the verdict "watch", a p-value below 0.001 "alarm": there are several checks, and people
look at them often.
"""
