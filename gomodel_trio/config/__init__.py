"""From variables and YAML to settings, and from settings to a routing policy."""
