"""The broker's users and certificate, for Compose, Kubernetes and `pallas up`."""
