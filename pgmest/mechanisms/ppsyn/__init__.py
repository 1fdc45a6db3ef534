"""PPSyn (Zhang, Deng, Yin), made private."""
