"""Tells Mnemosyne what holds now about one instance (auth contract, section 8). Whoever calls this has its lease.

A team is made by POST. If it exists already, an earlier attempt has made it and was lost before its JWT was stored:
the JWT is then replaced, unless the stored one is the current one. Every step may be repeated.
"""

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.hooks.due import RECONCILE, Due
from workspaces.hooks.state import State, believed_of, jwt_values, status_values, write
from workspaces.mnemosyne.reading import MnemosyneAway, MnemosyneRefused, NoSuchTeam, Team, TeamGone, jti_of
from workspaces.mnemosyne.teams import Teams
from workspaces.mnemosyne.vault import Vault
from workspaces.model import Who

log = logging.getLogger(__name__)

RENAMED = "on_pallas_renamed"
GONE = "the team was deleted in Mnemosyne, which cannot be undone; register the instance anew"


@dataclass
class Ended:
    """How telling about one instance has ended. `values` are to be written into its row, `data` tells what was done.

    `away`: Mnemosyne has failed, and may not the next time. `healed`: the last try had failed, and this one has not.
    """

    due: Due
    name: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str | None = None
    away: bool = False
    healed: bool = False
    deleted: bool = False
    provisioning: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def again(self) -> bool:
        """Whether it is to be tried again soon. The reconciler has its next cycle."""
        return self.away and self.due.hooks != (RECONCILE,)

    @property
    def steady(self) -> bool:
        """The reconciler has found everything as it should be."""
        return self.due.hooks == (RECONCILE,) and self.error is None and not {"changed", "drift"} & self.data.keys()


@dataclass(frozen=True, slots=True)
class Settler:
    """Speaks with Mnemosyne, and stores at once what must not be lost."""

    teams: Teams
    vault: Vault
    engine: AsyncEngine

    async def settle(self, due: Due, state: State) -> Ended:
        """Provision the team if it is not, then push its workspaces.

        Raises:
            Superseded: the lease was lost, or the instance was deleted meanwhile.
        """
        ended = Ended(due, state.name)
        try:
            await self._settle(ended, state)
        except TeamGone:
            ended.error = GONE
            ended.values |= status_values("failed", GONE)
        except MnemosyneRefused as error:
            ended.error = error.message
        except MnemosyneAway as error:
            ended.error, ended.away = error.message, True
        if ended.error is not None and ended.provisioning:
            ended.values |= status_values("failed", ended.error)
        elif ended.error != GONE:
            self._note_error(ended, state)
        return ended

    async def delete(self, due: Due, name: str) -> Ended:
        """Make the team of a deleted instance inactive."""
        ended = Ended(due, name, deleted=True)
        try:
            if due.hooks == (RECONCILE,):
                team = await self.teams.get(due.instance_id, correlation=due.who.correlation)
                if team is None or not team.active:
                    return ended
            await self.teams.delete(due.instance_id, correlation=due.who.correlation)
        except MnemosyneRefused as error:
            ended.error = error.message
        except MnemosyneAway as error:
            ended.error, ended.away = error.message, True
        else:
            ended.data["changed"] = True
            log_action("deleted", due.who, due.instance_id, name)
        return ended

    async def _settle(self, ended: Ended, state: State) -> None:
        due, wanted = ended.due, state.workspace_ids
        provisioned = state.status == "provisioned"
        if provisioned and {RECONCILE, RENAMED} & set(due.hooks):
            provisioned = await self._look(ended, state)
        if not provisioned and await self.provision(ended, state) and not wanted:
            # A new team has no workspaces.
            ended.values["believed"] = believed_of(_active(state.name, []), jwt_is_current=True)
            return
        try:
            await self._push(ended, state)
        except NoSuchTeam:
            # Mnemosyne has lost it.
            await self.provision(ended, state)
            await self._push(ended, state)

    async def _look(self, ended: Ended, state: State) -> bool:
        """Ask what Mnemosyne believes. Returns whether the team is there.

        Raises:
            TeamGone: it was deleted there.
        """
        team = await self.teams.get(state.id, correlation=ended.due.who.correlation)
        current = self.is_current(state, team)
        ended.values["believed"] = believed_of(team, jwt_is_current=current)
        if team is None:
            ended.data["drift"] = "Mnemosyne did not know the team"
            return False
        if not team.active:
            raise TeamGone(GONE)
        if current is False and (state.believed or {}).get("jwt_is_current") is not False:
            ended.data["drift"] = "the JWT had been rotated elsewhere"
        if team.name not in (None, state.name):
            await self._rename(ended, state)
        if set(team.workspace_ids) != set(state.workspace_ids):
            ended.data["drift"] = "Mnemosyne had other workspaces"
        return True

    async def _rename(self, ended: Ended, state: State) -> None:
        """Tell Mnemosyne the name. The contract has no route for that, so one that is not ours may keep the old one."""
        try:
            await self.teams.rename(state.id, state.name, correlation=ended.due.who.correlation)
        except MnemosyneRefused:
            return
        ended.values["believed"] = {**ended.values["believed"], "name": state.name}
        ended.data |= {"drift": "Mnemosyne had another name", "changed": True}

    async def provision(self, ended: Ended, state: State) -> bool:
        """Make the team, or find it, and store its JWT. Returns whether it is new.

        Raises:
            TeamGone: it was deleted in Mnemosyne.
        """
        who = ended.due.who
        ended.provisioning = True
        await write(self.engine, ended.due, status_values("pending"))
        jwt = await self.teams.post(state.id, state.name, correlation=who.correlation)
        new = jwt is not None
        if jwt is None:
            team = await self.teams.get(state.id, correlation=who.correlation)
            if team is not None and not team.active:
                ended.values["believed"] = believed_of(team)
                raise TeamGone(GONE)
            if self.is_current(state, team):
                await write(self.engine, ended.due, status_values("provisioned"))
                ended.provisioning = False
                return False
            jwt = await self.teams.rotate(state.id, correlation=who.correlation)
        await write(self.engine, ended.due, jwt_values(self.vault.seal(jwt)))
        ended.provisioning = False
        ended.data |= {"jwt": "new", "changed": True}
        log_action("provisioned", who, state.id, state.name)
        return new

    def _note_error(self, ended: Ended, state: State) -> None:
        """Keep with what Mnemosyne believes why it could not be compared; what it answers later has no error."""
        before, answered = (state.believed or {}).get("error"), ended.values.get("believed")
        if ended.error is None:
            ended.healed = before is not None
        elif answered or ended.error != before:
            known = answered or state.believed or believed_of(_active(state.name, list(state.pushed or ())))
            ended.values["believed"] = {**known, "error": ended.error}

    async def _push(self, ended: Ended, state: State) -> None:
        wanted = list(state.workspace_ids)
        told = await self.teams.put_workspaces(state.id, wanted, correlation=ended.due.who.correlation)
        before: Any = ended.values.get("believed") or state.believed or {}
        current = True if ended.data.get("jwt") == "new" else before.get("jwt_is_current")
        ended.values |= {
            "pushed_workspaces": wanted,
            "pushed_at": func.clock_timestamp(),
            "believed": believed_of(_active(before.get("name") or state.name, told), jwt_is_current=current),
        }
        ended.data["workspace_ids"] = wanted
        if state.pushed is None or list(state.pushed) != wanted or "drift" in ended.data or "jwt" in ended.data:
            ended.data["changed"] = True
            log_action("workspaces_updated", ended.due.who, state.id, state.name, workspaces=wanted)

    def is_current(self, state: State, team: Team | None) -> bool | None:
        """Whether the stored JWT is the team's current one; None if Mnemosyne does not say."""
        if team is None or state.sealed is None:
            return False
        jti = jti_of(self.vault.open(state.sealed))
        return None if jti is None or team.active_jti is None else jti == team.active_jti


def _active(name: str, workspace_ids: list[str]) -> Team:
    return Team(name=name, active=True, workspace_ids=workspace_ids)


def log_action(action: str, who: Who, team: str, name: str, **facts: Collection[str]) -> None:
    """One line for each action (auth contract, section 13.4)."""
    extra = {"team": team, "team_name": name, "actor": who.account, "correlation": who.correlation, **facts}
    log.info(f"pallas_team_{action}", extra=extra)
