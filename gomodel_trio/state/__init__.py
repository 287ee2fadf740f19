"""The one task that owns all mutable routing state, and the commands it takes."""
