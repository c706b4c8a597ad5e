"""Backups of an installation: made online, encrypted to a public key, in a folder or an object store."""
