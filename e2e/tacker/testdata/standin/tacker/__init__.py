"""Stands in for Tacker: the names that the driver imports, with the behaviour that its hooks see.

The "database" is the file that TACKER_STANDIN_STATE names. TestHooksOfRealTacker runs the driver
with Tacker itself.
"""
