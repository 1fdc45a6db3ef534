"""Estimated models: one contract, the kinds that meet it, their files, error bars and information measures."""
