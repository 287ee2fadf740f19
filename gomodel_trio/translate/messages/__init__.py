"""The form of Anthropic's Messages API."""
