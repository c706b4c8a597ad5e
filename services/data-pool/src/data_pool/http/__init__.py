"""The door for agents: WebSockets at `/rpc`."""
