"""PrivMRF (Cai et al. 2021)."""
