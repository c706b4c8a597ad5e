"""Hears of changes of our teams that others made in Mnemosyne, where it is the one of this platform.

Such a change is an event on the broker. The team is then due for the reconciler at once, which asks Mnemosyne and pushes
our workspaces again. Without a broker, and with another Mnemosyne, the next cycle notices.
"""

import asyncio
import logging

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.transport.connection import Bus
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import postgres_errors
from workspaces.hooks.reconciler import make_all_due
from workspaces.hooks.state import load
from workspaces.model import Who
from workspaces.tables import DueHook

log = logging.getLogger(__name__)
