"""How alike the tokens' gradients are."""

from theory.prediction import Quantity, mean_cosine
from theory.stack import cosine_of

QUANTITY = Quantity(
    name="gradient-cosine",
    definition="mean cosine between two different tokens' gradients ∂𝓛/∂x_l",
    read=lambda profile: [mean_cosine(cosine_of(moments["x", "x"])) for moments in profile.backward],
    tokens=2,
)
