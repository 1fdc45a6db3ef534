"""From measurements to a model: `estimate`, which joins loss, solver, oracle, prior and model."""
