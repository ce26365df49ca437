"""Terms of first order in 1/width along a stack: lengths that fluctuate, gradients that remember the stream.

Given the forward pass of a block, its random matrices are fresh in every direction that the forward pass has not fixed.
That leaves four effects at order 1/width, and no fitted constant:

1. *Lengths fluctuate* (`lengths`). A token's |y|²/d scatters around its mean with relative variance V; a norm divides
   gradients by it, and E[1/(1+ξ)] = 1 + V. It lowers the mean cosine between tokens that a norm sees, too.
2. *A norm projects* (`gradients`): the gradient at y has no part along y, one direction in d.
3. *Gradients remember the stream.* h is orthogonal to y = αx + βu, so h·u and h·x are tied; W given u = Wa hands
   the part (u·h)/|a|² back along a.
4. *Lengths and slopes are coupled*: where many hidden units are on, both |u| and |Jᵀh| are large.

For one token of a linear block under RMSNorm they add up to the variance of its squared singular values, as they
must: (4σ²+2σ⁴)/(1+σ²)² − σ²/(1+σ²) − σ²/(1+σ²)² = (2σ²+σ⁴)/(1+σ²)². A sublayer that is not homogeneous has another
excess than that variance.

Between tokens two more: a direction that each of two tokens loses is lost twice unless they are alike (`gradients`), and
tokens differ in ever fewer directions where blocks act alike on all of them (`lengths`, purity), which attention sees and
which scatters the cosines that a kernel is averaged over (`theory.sublayers.tokenwise`).

A norm inside a sublayer takes its part of 3 and 4 away: no gradient lies along what it normalised, whose length is fixed. Its
root mean square fluctuates in turn (`Fluctuations.excess`). Between tokens that excess is taken to be the same for all pairs.

LayerNorm is treated as RMSNorm in the d − 1 directions without the mean; it projects one more direction out of the gradient
once, below the output of a Post-LN stack. That, and terms of order 1/width², are left out.
"""
