"""How close estimates come to the true marginals, and which way of stopping or penalizing comes closest."""
