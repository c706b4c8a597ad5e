"""Conversations: messages, images, what agents are sent of them, and the replies that agents are called for."""
