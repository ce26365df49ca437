"""The measuring side: expression → torch network → readings with intervals."""
