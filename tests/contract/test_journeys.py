"""The edges of a turn's journey are those of the services and of the catalogue of contracts."""

from tests.contract.tree import packages
from tests.journeys import EDGES, OUTSIDE, TURN, connections

from pallas_contracts.catalog import BUCKETS, CONTRACTS, QUESTIONS

SERVICES = {package.folder.name for package in packages() if package.is_service}
SAID_BY = {contract.name: contract.owners for contract in CONTRACTS} | {
    bucket.name: bucket.writers for bucket in BUCKETS
}
ASKED = {question.name: (question.askers, question.answerer) for question in QUESTIONS}


def test_every_service_is_on_the_way() -> None:
    assert {end for edge in EDGES for end in (edge.source, edge.destination)} == (
        SERVICES | OUTSIDE | {"demo-tools", "postgres", "redis"}
    )


def test_what_is_said_through_the_broker_is_said_by_one_of_its_owners() -> None:
    told = [edge for edge in EDGES if edge.how == "nats" and edge.what not in ASKED]
    assert [edge for edge in told if edge.source not in SAID_BY[edge.what]] == []


def test_what_is_asked_through_the_broker_is_asked_of_whom_it_is_answered_by() -> None:
    asked = [edge for edge in EDGES if edge.what in ASKED]
    assert [edge for edge in asked if edge.source not in ASKED[edge.what][0]] == []
    assert [edge for edge in asked if edge.destination != ASKED[edge.what][1]] == []


def test_every_question_of_the_catalogue_between_services_is_an_edge() -> None:
    wanted = {(asker, name) for name, (askers, _) in ASKED.items() for asker in askers if asker in SERVICES}
    assert wanted == {(edge.source, edge.what) for edge in EDGES if edge.what in ASKED}


def test_services_that_speak_through_the_broker_do_not_connect_to_each_other() -> None:
    between = {pair for pair in connections(TURN) if set(pair) <= SERVICES}
    assert between == {("agent-worker", "library-search")}
