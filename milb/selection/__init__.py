"""Selectors: from scores or features of all pool points to the k points to label.

All take `available`, a mask of the rows that may be picked; those that look at labelled points take them as a buffer,
`labelled_features`, with `labelled_mask` for the rows of it that count. All work inside jit and vmap with traced masks.
Called with concrete arrays they check them; inside jit they cannot, and then a row whose score or features are not
finite is picked only when no other row is left.
"""

from milb.selection.bait import bait
from milb.selection.distance import k_center, lcmd, max_dist
from milb.selection.scores import sbal, top_k, top_k_ties_last

SELECTORS = {
    "top_k": top_k,
    "top_k_ties_last": top_k_ties_last,
    "sbal": sbal,
    "max_dist": max_dist,
    "k_center": k_center,
    "lcmd": lcmd,
    "bait": bait,
}

__all__ = ["SELECTORS", *SELECTORS]
