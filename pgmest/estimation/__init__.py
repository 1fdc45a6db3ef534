"""`estimate`: from measurements to a model, by joining loss, solver, oracle, prior and model."""
