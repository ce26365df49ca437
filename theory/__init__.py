"""The deriving side: expression → recursions → laws and predictions."""
