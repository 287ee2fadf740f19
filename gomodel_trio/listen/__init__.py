"""The front doors to the gateway."""
