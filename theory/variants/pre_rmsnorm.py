"""Pre-LN with RMSNorm (LLaMA's placement): x_l = x_{l-1} + F(RMS(x_{l-1})), final RMSNorm."""

from theory.algebra import RMS, F, Stream, Variant

x = Stream("x")

VARIANT = Variant(
    name="pre-rmsnorm",
    update=x + F(RMS(x)),
    read_out=RMS(x),
    source="placement: Xiong et al. 2020, Table 1; norm: Zhang & Sennrich 2019, eq. 4",
)
