"""Every entry of the catalogue names its writers and readers, from which the rights of the broker's users follow."""

from tests.contract.tree import packages

from pallas_bus.rights import rights_of
from pallas_contracts.catalog import BLOBS, BUCKETS, CLI, CONTRACTS, QUESTIONS, SERVICES, SPEAKERS, STREAMS

ENDS = (
    {contract.name: (contract.owners, contract.readers) for contract in CONTRACTS}
    | {bucket.name: (bucket.writers, bucket.readers) for bucket in BUCKETS}
    | {blob.name: (blob.owners, blob.readers) for blob in BLOBS}
    | {question.name: (question.askers, question.answerers) for question in QUESTIONS}
)


def test_the_services_of_the_catalogue_are_those_of_the_repository() -> None:
    assert set(SERVICES) == {package.folder.name for package in packages() if package.is_service}
    assert set(SPEAKERS) == {*SERVICES, CLI}


def test_every_entry_has_a_writer_and_a_reader() -> None:
    assert [name for name, (writers, readers) in ENDS.items() if not writers or not readers] == []


def test_writers_and_readers_are_services_or_the_cli() -> None:
    named = {who for ends in ENDS.values() for side in ends for who in side}
    named |= {thing.owner for thing in (*STREAMS, *BUCKETS)}
    named |= {who for stream in STREAMS for who in (*stream.removers, *stream.counters)}
    assert named <= set(SPEAKERS)


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
        "pallas.v1.turn.requested.*.*.*",
        "pallas.v1.turn.claim.*.*.*",
        "pallas.v1.object.part.*.*.*.*.*",
    }
    assert [subject for subject in rights.publish if "CONSUMER" in subject or "DELETE" in subject] == []
