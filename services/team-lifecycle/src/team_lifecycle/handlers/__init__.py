"""What is decided and answered for each kind of thing, and who may do it."""
