"""PPSyn (Zhang, Deng, Yin): made private, and as published."""
