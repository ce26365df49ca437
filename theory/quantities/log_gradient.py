"""Mean logarithm of the squared gradient at the stream."""

import numpy as np

from theory.prediction import Quantity
from theory.scatter import log_gradient

QUANTITY = Quantity(
    name="log-gradient",
    definition="E log(|∂𝓛/∂x_l|²/d) of one token's gradient, mean over tokens",
    read=lambda profile: [float(np.mean(mean)) for mean, _ in log_gradient(profile)],
    on_demand=True,
)
