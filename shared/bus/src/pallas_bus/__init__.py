"""Messages of Pallas over NATS JetStream. The only package that imports nats."""
