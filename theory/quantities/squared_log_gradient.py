"""Mean square of the logarithm of the squared gradient at the stream: with `log_gradient`, its scatter over networks."""

import numpy as np

from theory.prediction import Quantity
from theory.scatter import log_gradient

QUANTITY = Quantity(
    name="squared-log-gradient",
    definition="E log²(|∂𝓛/∂x_l|²/d) of one token's gradient, mean over tokens; less log-gradient², the scatter over networks",
    read=lambda profile: [float(np.mean(mean**2 + variance)) for mean, variance in log_gradient(profile)],
    on_demand=True,
)
