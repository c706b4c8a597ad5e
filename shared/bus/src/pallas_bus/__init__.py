"""How things are said over NATS JetStream. The only importer of nats."""
