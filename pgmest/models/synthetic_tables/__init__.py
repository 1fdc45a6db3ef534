"""Synthetic tables for analyses: tables that the answers allow, drawn at random, and records that have them."""
