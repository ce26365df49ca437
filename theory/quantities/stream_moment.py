"""Second moment of the stream."""

from theory.prediction import Quantity, mean_square

QUANTITY = Quantity(
    name="stream-moment",
    definition="E|x_l|²/(n·d)",
    read=lambda profile: [mean_square(moments) for moments in profile.forward],
)
