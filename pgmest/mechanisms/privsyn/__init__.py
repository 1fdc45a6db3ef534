"""PrivSyn (Zhang et al. 2021), on which DPSyn builds."""
