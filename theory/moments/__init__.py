"""Gaussian moments and kernels of activations, exact where sympy can."""

from theory.moments.activations import ACTIVATIONS, Activation, activation, mean_slope, mean_value
from theory.moments.gaussian import gaussian_expectation, q
from theory.moments.kernels import kernel_between, slope_kernel, squared_slope_kernel, value_kernel

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "activation",
    "gaussian_expectation",
    "kernel_between",
    "mean_slope",
    "mean_value",
    "q",
    "slope_kernel",
    "squared_slope_kernel",
    "value_kernel",
]
