"""The claims: statement, law, measurement, band, verdict."""
