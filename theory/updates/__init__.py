"""Change of the output after one optimiser step, to first order in the learning rate."""
