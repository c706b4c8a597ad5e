"""Turn ids: version 7 UUIDs that sort by time."""

import uuid

from pallas_contracts.ids import check_token, new_turn_id


def test_a_turn_id_is_a_version_7_uuid_and_a_token() -> None:
    made = uuid.UUID(hex=new_turn_id())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert check_token(made.hex, "turn") == made.hex


def test_turn_ids_are_all_different_and_begin_with_the_time() -> None:
    ids = [new_turn_id() for _ in range(1000)]
    assert len(set(ids)) == len(ids)
    assert [made[:12] for made in ids] == sorted(made[:12] for made in ids)
