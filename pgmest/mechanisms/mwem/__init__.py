"""MWEM (Hardt, Ligett, McSherry 2012)."""
