"""The experiments of PPSyn (Zhang, Deng, Yin), figures 3 to 9, with private and published variants and others."""
