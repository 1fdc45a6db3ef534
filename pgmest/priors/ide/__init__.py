"""Prior-aware distribution estimation: the algorithms of IDE (Tao, Bater, Machanavajjhala)."""
