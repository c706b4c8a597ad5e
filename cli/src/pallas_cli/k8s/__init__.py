"""Team folders as objects of Kubernetes, made of the same manifests as the rest of the platform."""
