"""How close estimates come to the true marginals, and which way of stopping or penalising comes closest."""
