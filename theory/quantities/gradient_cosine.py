"""How alike the tokens' gradients are."""

from theory.pairs import cosines, mean_between
from theory.prediction import Quantity

QUANTITY = Quantity(
    name="gradient-cosine",
    definition="mean cosine between two different tokens' gradients ∂𝓛/∂x_l",
    read=lambda profile: [mean_between(cosines(moments["x", "x"])) for moments in profile.backward],
    tokens=2,
)
