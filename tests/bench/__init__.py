"""`make bench`: Pallas beside other servers in one interleaved run.

Figures are printed with their targets, never asserted.
"""
