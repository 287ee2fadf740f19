"""Talking to providers: transports, one attempt, one file a provider kind."""
