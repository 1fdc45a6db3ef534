"""How good an estimate is: distances between marginals."""
