"""Hears of changes of our teams that others made in Mnemosyne, where it is the one of this platform.

Such a change is an event on the broker. The team is then due for the reconciler at once, which asks Mnemosyne and pushes
our workspaces again. Without a broker, and with another Mnemosyne, the next cycle notices.
"""

import logging

log = logging.getLogger(__name__)
