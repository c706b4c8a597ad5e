"""Compares claimed teams with Mnemosyne, and puts what differs (auth contract, section 8).

A team is made by POST. If it exists already, an earlier try has made it and was lost before its JWT was stored: the JWT
is then replaced, unless the stored one is the current one. The list of workspaces is always put, and whole. Every step
may be repeated.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func

from pallas_contracts.errors import PallasError, Superseded
from pallas_contracts.message import utc_now
from workspaces.mnemosyne.reading import MnemosyneAway, MnemosyneRefused, NoSuchTeam, Team, TeamGone, jti_of
from workspaces.mnemosyne.teams import Teams
from workspaces.mnemosyne.vault import Vault
from workspaces.model import TeamStatus
from workspaces.reconciling.claims import Claimed, Claims, status_values
from workspaces.tables import PallasInstance

log = logging.getLogger(__name__)

GONE = "the team was deleted in Mnemosyne, which cannot be undone; register the instance anew"
BROKEN = "something in Pallas went wrong when the team was compared with Mnemosyne; the log of workspaces has it"
LONGEST_DELAY = 60.0
_MOST_DOUBLINGS = 6


@dataclass
class Synced:
    """How comparing a team has ended. None is what stays as it was.

    `delay`: something has failed, with this `code`, and is tried again after so many seconds; None: not before the team
    is woken. `differed`: Mnemosyne had something else than before. `has_new_jwt`: one was stored.
    """

    one: Claimed
    error: str | None = None
    code: str | None = None
    delay: float | None = None
    status: TeamStatus | None = None
    believed: Mapping[str, Any] | None = None
    pushed: list[str] | None = None
    differed: bool = False
    has_new_jwt: bool = False

    @property
    def is_news(self) -> bool:
        """Whether browsers are told: not of a team that was as it should be, and is."""
        before = self.one.team
        return before.since is not None or self.error != before.error or self.differed or self.has_new_jwt

    @property
    def last(self) -> Mapping[str, Any]:
        """What Mnemosyne has answered last."""
        instance = self.one.instance
        return self.believed or (instance and instance.believed) or {}

    def row(self) -> dict[str, Any]:
        """What is stored of it (`Claims.conclude`)."""
        stored = {name: getattr(self, name) for name in ("error", "delay", "believed", "pushed", "status")}
        reason = self.error if self.status == "failed" else None
        return {"id": self.one.id, "version": self.one.team.version, "reason": reason, **stored}


@dataclass(frozen=True, slots=True)
class Syncer:
    """Speaks with Mnemosyne, and stores at once what must not be lost."""

    teams: Teams
    vault: Vault
    claims: Claims

    async def sync(self, claimed: Sequence[Claimed]) -> list[Synced]:
        """Make Mnemosyne have what holds here about the teams of one claim. How that ended is stored, too.

        A team whose claim was lost, or whose instance was deleted meanwhile, is left out: it is compared again. What
        fails of one team ends none of the others. Afterwards, whatever happens, nothing is sent about any of them.

        Raises:
            Unavailable: Postgres cannot be used right now; the claim ends by itself.
        """
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._try(one)) for one in claimed]
        ended = [task.result() for task in tasks]
        rows, news = [each.row() for each in ended if each], [each.one.id for each in ended if each and each.is_news]
        kept = await self.claims.conclude(claimed[0].token, rows, news)
        for one in claimed:
            if one.id not in kept:
                await self.claims.compare_again(one)
        for each in (known := [each for each in ended if each and each.one.id in kept]):
            if each.error is not None and each.error != each.one.team.error:
                extra = {"reason": each.error, "correlation": each.one.who.correlation}
                log.warning("a team is not in sync with Mnemosyne", extra=_facts(each.one, **extra))
        return known

    async def look(self, one: Claimed, correlation: str) -> tuple[Team | None, dict[str, Any]]:
        """Ask Mnemosyne about a team. Returns its answer, and what is stored of it.

        Raises:
            MnemosyneAway, MnemosyneRefused: Mnemosyne did not answer.
        """
        theirs = await self.teams.get(one.id, correlation=correlation)
        return theirs, believed_of(theirs, jwt_is_current=self._is_current(one, theirs))

    def jwt_values(self, jwt: str) -> dict[str, Any]:
        """The columns of a new JWT, which nobody has seen yet."""
        new = {"team_jwt_encrypted": self.vault.seal(jwt), "jwt_made_at": func.clock_timestamp()}
        return {**new, "jwt_revealed_at": None, **status_values("provisioned")}

    async def _try(self, one: Claimed) -> Synced | None:
        """Compare one team. None: the claim was lost, or the instance deleted."""
        synced = Synced(one)
        try:
            if one.instance is not None:
                await self._sync(synced, one.instance)
            else:
                await self._delete(one)
        except Superseded:
            return None
        except TeamGone:
            synced.error, synced.status = GONE, "failed"
        except MnemosyneRefused as error:
            synced.error = error.message
        except PallasError as error:
            synced.error, synced.code = error.message, error.code
            synced.delay = max(_delay(one), error.wait if isinstance(error, MnemosyneAway) else 0.0)
        except Exception:
            log.exception("a team could not be compared with Mnemosyne", extra=_facts(one))
            synced.error, synced.code, synced.delay = BROKEN, PallasError.default_code, _delay(one)
        if synced.status == "pending":
            synced.status = "failed"
        return synced

    async def _sync(self, synced: Synced, instance: PallasInstance) -> None:
        before, provisioned = synced.one.team, instance.pallas_team_mnemosyne_status == "provisioned"
        if provisioned and before.since is None:
            # Nothing was changed here, so perhaps there.
            provisioned = await self._compare(synced)
        if not provisioned and await self._provision(synced, instance) and not synced.one.workspace_ids:
            return
        try:
            await self._put(synced, instance)
        except NoSuchTeam:
            # Mnemosyne has lost it.
            await self._provision(synced, instance)
            await self._put(synced, instance)
        if before.since is not None and before.error is not None and not synced.has_new_jwt:
            # The last try has failed, so perhaps something was changed there, too. But rights are taken away first.
            await self._compare(synced)
        if synced.last.get("name") not in (None, instance.name):
            await self._rename(synced)

    async def _delete(self, one: Claimed) -> None:
        """Make the team of a deleted instance inactive. If nothing was changed here: only one that has come back."""
        if one.team.since is None:
            theirs = await self.teams.get(one.id, correlation=one.who.correlation)
            if theirs is None or not theirs.active:
                return
        await self.teams.delete(one.id, correlation=one.who.correlation)
        log_action("deleted", one)

    async def _compare(self, synced: Synced) -> bool:
        """Ask what Mnemosyne has. Returns whether the team is there.

        Raises:
            TeamGone: it was deleted there.
        """
        one, before = synced.one, synced.last
        theirs, synced.believed = await self.look(one, one.who.correlation)
        if theirs is not None and not theirs.active:
            raise TeamGone(GONE)
        same = all(before.get(name) == synced.believed.get(name) for name in ("name", "jwt_is_current"))
        if theirs is None or not same or set(theirs.workspace_ids) != set(one.workspace_ids):
            synced.differed = True
            log.info("Mnemosyne has something else about a team", extra=_facts(one))
        return theirs is not None

    async def _provision(self, synced: Synced, instance: PallasInstance) -> bool:
        """Make the team, or find it, and store its JWT. Returns whether it is new.

        Raises:
            TeamGone: it was deleted in Mnemosyne.
        """
        one, correlation = synced.one, synced.one.who.correlation
        synced.status = "pending"
        await self.claims.store(one, status_values("pending"))
        jwt, name = await self.teams.post(one.id, instance.name, correlation=correlation), instance.name
        is_new = jwt is not None
        if jwt is None:
            theirs, synced.believed = await self.look(one, correlation)
            if theirs is not None and not theirs.active:
                raise TeamGone(GONE)
            if self._is_current(one, theirs):
                synced.status = "provisioned"
                return False
            jwt = await self.teams.rotate(one.id, correlation=correlation)
            name = theirs.name if theirs is not None else None
        await self.claims.store(one, self.jwt_values(jwt))
        synced.status, synced.has_new_jwt = None, True
        synced.believed = believed_of(Team(name=name, active=True, workspace_ids=[]), jwt_is_current=True)
        log_action("provisioned", one)
        return is_new

    async def _put(self, synced: Synced, instance: PallasInstance) -> None:
        one, wanted, last = synced.one, list(synced.one.workspace_ids), synced.last
        told = await self.teams.put_workspaces(one.id, wanted, correlation=one.who.correlation)
        theirs = Team(name=last.get("name"), active=True, workspace_ids=told)
        synced.believed = believed_of(theirs, jwt_is_current=last.get("jwt_is_current"))
        synced.pushed = wanted
        if instance.pushed_workspaces != wanted or synced.differed or synced.has_new_jwt:
            log_action("workspaces_updated", one, workspaces=wanted)

    async def _rename(self, synced: Synced) -> None:
        """Tell Mnemosyne the name. The contract has no route for that, so one that is not ours may keep the old one."""
        one = synced.one
        try:
            await self.teams.rename(one.id, one.name, correlation=one.who.correlation)
        except MnemosyneRefused:
            return
        synced.believed = {**synced.last, "name": one.name}

    def _is_current(self, one: Claimed, theirs: Team | None) -> bool | None:
        """Whether the stored JWT is the team's current one; None if Mnemosyne does not say."""
        sealed = one.instance and one.instance.team_jwt_encrypted
        if theirs is None or sealed is None:
            return False
        jti = jti_of(self.vault.open(sealed))
        return None if jti is None or theirs.active_jti is None else jti == theirs.active_jti


def believed_of(theirs: Team | None, *, jwt_is_current: bool | None) -> dict[str, Any]:
    """What Mnemosyne has answered about a team, as it is stored."""
    at = utc_now().isoformat()
    if theirs is None:
        return {"active": None, "workspace_ids": [], "at": at}
    known = {"active": theirs.active, "name": theirs.name, "workspace_ids": sorted(theirs.workspace_ids)}
    return {**known, "jwt_is_current": jwt_is_current, "at": at}


def log_action(action: str, one: Claimed, **facts: Collection[str]) -> None:
    """One line for each action (auth contract, section 13.4)."""
    who = {"actor": one.who.account, "correlation": one.who.correlation}
    log.info(f"pallas_team_{action}", extra=_facts(one, **who, **facts))


def _delay(one: Claimed) -> float:
    """The seconds until the next try of a team that has failed: 1, 2, 4 … 60."""
    return min(LONGEST_DELAY, 2.0 ** min(one.team.tries, _MOST_DOUBLINGS))


def _facts(one: Claimed, **more: object) -> dict[str, object]:
    return {"team": one.id, "team_name": one.name, **more}
