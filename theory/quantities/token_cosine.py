"""How alike the tokens of the stream are."""

from theory.pairs import mean_between
from theory.prediction import Quantity

QUANTITY = Quantity(
    name="token-cosine",
    definition="mean cosine between two different tokens of x_l",
    read=lambda profile: [mean_between(cosine) for cosine in profile.cosines()],
    tokens=2,
)
