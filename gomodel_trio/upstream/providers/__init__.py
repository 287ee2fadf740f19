"""How each kind of provider wants to be asked."""
