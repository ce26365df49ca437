"""Laws of variants with several residual streams: the second moments of their gradients form a matrix."""
