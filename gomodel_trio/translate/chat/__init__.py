"""The form of OpenAI's chat completions."""
