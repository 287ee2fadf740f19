"""`simulate`: a scenario through the gateway's own routing code, in virtual time."""
