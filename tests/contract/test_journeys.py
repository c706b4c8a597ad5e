"""The edges of a turn's journey agree with the services and the catalogue of contracts."""

from tests.contract.tree import packages
from tests.journeys import EDGES, OUTSIDE, TURN, connections

from pallas_contracts.catalog import BUCKETS, CONTRACTS, QUESTIONS

SERVICES = {package.folder.name for package in packages() if package.is_service}
OWNERS = {contract.name: contract.owners for contract in CONTRACTS} | {
    bucket.name: bucket.writers for bucket in BUCKETS
}
ASKED = {question.name: (question.askers, question.answerers) for question in QUESTIONS}


def test_the_edges_connect_every_service() -> None:
    assert {end for edge in EDGES for end in (edge.source, edge.destination)} == (
        SERVICES | OUTSIDE | {"demo-tools", "postgres", "redis"}
    )


def test_a_message_edge_begins_at_an_owner_of_the_message() -> None:
    messages = [edge for edge in EDGES if edge.how == "nats" and edge.what not in ASKED]
    assert [edge for edge in messages if edge.source not in OWNERS[edge.what]] == []


def test_a_question_edge_leads_from_an_asker_to_the_answerer() -> None:
    asked = [edge for edge in EDGES if edge.what in ASKED]
    assert [edge for edge in asked if edge.source not in ASKED[edge.what][0]] == []
    assert [edge for edge in asked if edge.destination not in ASKED[edge.what][1]] == []


def test_every_question_between_services_is_an_edge() -> None:
    wanted = {(asker, name) for name, (askers, _) in ASKED.items() for asker in askers if asker in SERVICES}
    assert wanted == {(edge.source, edge.what) for edge in EDGES if edge.what in ASKED}


def test_in_a_turn_only_the_worker_connects_to_another_service() -> None:
    between = {pair for pair in connections(TURN) if set(pair) <= SERVICES}
    assert between == {("agent-worker", "library-search")}
