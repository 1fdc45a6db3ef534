"""TopDown (Abowd et al. 2022), the mechanism of the 2020 census of the United States."""
