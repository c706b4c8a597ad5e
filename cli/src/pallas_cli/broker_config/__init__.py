"""The broker's users and its certificate: for compose, for Kubernetes and for `pallas up`."""
