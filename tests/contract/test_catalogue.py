"""Every entry of the catalogue names its writers and readers, from which the rights of the broker's users follow."""

from tests.contract.tree import packages

from pallas_contracts.catalog import (
    BACKUP,
    BLOBS,
    BUCKETS,
    CLI,
    CONTRACTS,
    QUESTIONS,
    RESTORE,
    SERVICES,
    SPEAKERS,
    STREAMS,
)
from pallas_contracts.contract import Saved
from pallas_turns.rights import rights_of, saved_streams

ENDS = (
    {contract.name: (contract.owners, contract.readers) for contract in CONTRACTS}
    | {bucket.name: (bucket.writers, bucket.readers) for bucket in BUCKETS}
    | {blob.name: (blob.owners, blob.readers) for blob in BLOBS}
    | {question.name: (question.askers, question.answerers) for question in QUESTIONS}
)


def test_the_services_of_the_catalogue_are_those_of_the_repository() -> None:
    assert set(SERVICES) == {package.folder.name for package in packages() if package.is_service}
    assert set(SPEAKERS) == {*SERVICES, CLI, BACKUP, RESTORE}


def test_every_entry_has_a_writer_and_a_reader() -> None:
    assert [name for name, (writers, readers) in ENDS.items() if not writers or not readers] == []


def test_writers_and_readers_are_services_or_the_cli() -> None:
    named = {who for ends in ENDS.values() for side in ends for who in side}
    named |= {thing.owner for thing in (*STREAMS, *BUCKETS)}
    named |= {who for stream in STREAMS for who in (*stream.removers, *stream.counters)}
    assert named <= set(SPEAKERS)


def test_the_user_backup_may_take_snapshots_and_nothing_else() -> None:
    rights = rights_of(BACKUP)
    allowed = {"$JS.API.STREAM.NAMES", *(f"$JS.API.STREAM.SNAPSHOT.{name}" for name in saved_streams())}
    assert set(rights.publish) == allowed | {f"$JS.SNAPSHOT.ACK.{name}.>" for name in saved_streams()}
    assert rights.subscribe == ()


def test_only_the_user_restore_may_delete_or_restore_streams_and_it_may_read_none_that_a_backup_has() -> None:
    dangerous = ("STREAM.DELETE", "STREAM.RESTORE")
    for service in (*SERVICES, BACKUP):
        assert not [it for it in rights_of(service).publish if any(word in it for word in dangerous)], service
    read = [it for it in rights_of(RESTORE).publish if "DIRECT.GET" in it]
    assert read == [f"$JS.API.DIRECT.GET.KV_{name}" for name in ("gateways", "holds", "workers")]


def test_what_a_backup_leaves_out_expires_within_a_day_or_is_made_again() -> None:
    made_again = {"probes", "health", "heartbeats", "holds"}
    left_out = [bucket for bucket in BUCKETS if bucket.saved is Saved.NEVER]
    assert {bucket.name for bucket in left_out if bucket.ttl is None} == made_again
    assert all(stream.saved is not Saved.NEVER for stream in STREAMS)


def test_a_worker_of_one_team_has_no_rights_on_turns_of_another() -> None:
    rights = rights_of("agent-worker", {"alpha": ["x"]})
    of_every_team = {subject for subject in rights_of("agent-worker").publish if ".turn." in subject}
    assert of_every_team.isdisjoint(rights.publish)
    of_turns = [subject for subject in (*rights.publish, *rights.subscribe) if "turn." in subject]
    assert [subject for subject in of_turns if "alpha" not in subject] == []


def test_the_pool_may_use_all_consumers_but_those_of_workers_and_no_data_of_another_team() -> None:
    rights = rights_of("data-pool", of_workers={"alpha": ["x"]})
    used = {f"$JS.API.CONSUMER.{verb}.TURN_QUEUE" for verb in ("MSG.NEXT", "DELETE")} | {"$JS.ACK.TURN_QUEUE"}
    assert {f"{use}.*" for use in used} <= {subject.removesuffix(".>") for subject in rights.publish}
    assert {f"{use}.alpha__x" for use in used} <= {subject.removesuffix(".>") for subject in rights.never}
    assert "$JS.API.CONSUMER.CREATE.TURN_QUEUE.alpha__x.>" in rights.never
    of_every_team = {subject for subject in rights_of("agent-worker").publish if ".turn." in subject}
    assert of_every_team.isdisjoint(rights.publish)
    of_turns = [subject for subject in (*rights.publish, *rights.subscribe) if "turn." in subject]
    assert [subject for subject in of_turns if ".data." not in subject] == []


def test_workspaces_reads_all_turns_and_submits_some_but_executes_none() -> None:
    rights = rights_of("workspaces")
    assert "$JS.API.DIRECT.GET.TURN_LOG" in rights.publish
    own = {subject for subject in rights.publish if not subject.startswith("$JS.API.")}
    assert own == {
        "pallas.v1.workspace.*.*",
        "pallas.v1.turn.requested.*.*.*.*",
        "pallas.v1.turn.claim.*.*.*",
        "pallas.v1.object.part.*.*.*.*.*",
    }
    assert [subject for subject in rights.publish if "CONSUMER" in subject or "DELETE" in subject] == []
