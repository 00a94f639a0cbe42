"""Lanes: 32 replications in step, in vector registers, from the same select and draw bodies.

`lane_types`  numbers of 32 lanes as Numba types whose values are LLVM vectors.
`arithmetic`  what is computed with them; `indexing`: arrays that they index.
`syntax`      the syntax trees of bodies; `lifting`: a scalar body rewritten for lanes: branches that differ between
              lanes become selections.
`blocks`      the loop over blocks of 32 replications; the results are those of `simulation.loop`, to the bit.
"""
