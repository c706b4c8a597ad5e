"""Mnemosyne, which owns teams and libraries: its REST API, and the vault for the JWTs that it gives out."""
