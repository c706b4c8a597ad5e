"""JSON-RPC 2.0, and the dialect of data agents (`data-agent-pool.md`, section 3).

In the dialect a message has no `jsonrpc` member and may have no `id`, a request is always answered, and an answer has
`meta` beside `result` or `error`. Both kinds of messages are read and answered here.
"""
