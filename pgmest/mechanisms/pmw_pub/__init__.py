"""PMW-Pub (Liu et al. 2021)."""
