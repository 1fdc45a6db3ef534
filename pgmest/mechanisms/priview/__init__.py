"""PriView (Qardaji, Yang, Li 2014)."""
