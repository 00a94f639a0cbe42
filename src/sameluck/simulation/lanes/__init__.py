"""Lanes: 32 replications in step, in vector registers, from the same select and draw bodies.

`vectors`  numbers of 32 lanes as a Numba type whose values are LLVM vectors, and their arithmetic.
`lifting`  a scalar body rewritten for lanes: branches that differ between lanes become selections.
`blocks`   the loop over blocks of 32 replications; the results are those of `simulation.loop`, to the bit.
"""
