"""Hosts team folders: what workers of all kinds share. What an agent of a folder is, its worker decides."""
