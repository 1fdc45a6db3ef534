"""Estimated distributions over records: one protocol, the models that meet it, their files, error bars and information
measures.
"""
