"""The number of SQL statements for a page of a list does not depend on its length."""

from sqlalchemy import event
from tests.integration.team_lifecycle.lab import Lifecycle

from pallas_postgres.engine import open_engine, reading
from team_lifecycle.handlers.listing import list_teams, list_tokens


async def test_a_page_of_tokens_or_teams_takes_two_statements_at_any_length(lifecycle: Lifecycle) -> None:
    await lifecycle.user("olga")
    allowed = {f"lib{number}" for number in range(3)}
    for uid in allowed:
        await lifecycle.library(uid, owner="olga")
    for libraries in (allowed, {"lib1"}, set[str]()):
        assert (await lifecycle.token("olga", *libraries)).status_code == 201
        team_id, _ = await lifecycle.team()
        await lifecycle.attach(team_id, *libraries)
    engine = open_engine(lifecycle.settings["postgres_url"], pool=1, service="tests")
    statements: list[str] = []
    async with reading(engine) as session:
        event.listen(engine.sync_engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        tokens = await list_tokens(session, "", 10, None)
        assert len(statements) == 2
        teams = await list_teams(session, "", 10)
        assert len(statements) == 4
    await engine.dispose()
    expected = [[], sorted(allowed), ["lib1"]]
    assert sorted(token.allowed_libraries for token in tokens.items) == expected
    assert sorted(team.workspace_ids for team in teams.items) == expected
