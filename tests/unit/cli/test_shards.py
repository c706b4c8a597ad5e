"""Where a team is after a move, and when it may not be moved."""

from datetime import UTC, datetime, timedelta

import pytest

from pallas_cli.refused import Refused
from pallas_cli.shards.moving import after_move
from pallas_contracts.shards import Earlier, TeamShard

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
WEEK, DAY = timedelta(days=7), timedelta(days=1)


def test_a_moved_team_names_the_shard_that_it_left_for_as_long_as_its_log_has_turns() -> None:
    moved = after_move(TeamShard(team="kottos"), 1, NOW, WEEK, {0: 0})
    assert moved.shards == (1, 0)
    assert moved.remembered(NOW + WEEK) == (0,)
    assert moved.remembered(NOW + WEEK + DAY) == ()


def test_a_team_cannot_return_while_the_log_there_may_say_where_its_turns_are() -> None:
    moved = after_move(TeamShard(team="kottos"), 1, NOW, WEEK, {0: 0})
    with pytest.raises(Refused, match="it can return after 2026-12-09 12:00 UTC"):
        after_move(moved, 0, NOW + 2 * WEEK, WEEK, {})
    back = after_move(moved, 0, NOW + 2 * WEEK + DAY, WEEK, {})
    assert back.shards == (0, 1)


def test_a_shard_is_forgotten_only_when_the_team_has_no_turn_in_its_queue() -> None:
    moved = after_move(TeamShard(team="kottos"), 1, NOW, WEEK, {0: 0})
    later = NOW + 3 * WEEK
    assert after_move(moved, 1, later, WEEK, {0: 2}).shards == (1, 0)
    assert after_move(moved, 1, later, WEEK, {}).shards == (1,)


def test_a_team_that_moves_on_names_all_shards_where_it_was() -> None:
    before = TeamShard(team="kottos", shard=1, earlier=(Earlier(shard=0, until=NOW + DAY),))
    assert after_move(before, 2, NOW, WEEK, {}).shards == (2, 1, 0)
