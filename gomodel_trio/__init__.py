"""gomodel_trio: an AI gateway that sends every request to the right model at the right provider."""

__version__ = "0.1.0"
