"""PrivBasis (Li, Qardaji, Su, Cao 2012; DPSyn section 3.1): frequent itemsets."""

from pgmest.mechanisms.privbasis.itemsets import FrequentItemsets, Itemset, frequent_itemsets

__all__ = ["FrequentItemsets", "Itemset", "frequent_itemsets"]
