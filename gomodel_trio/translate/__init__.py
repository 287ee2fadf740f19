"""Translation between dialects: every one into the canonical form (`canonical`) and out of it. Pure."""
