"""Subjects: built from checked ids, parsed back, nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_contracts.contract import Template
from pallas_contracts.errors import Rejected

OUTCOME = Template("pallas.v1.turn.outcome.{team}.{agent}.{turn}")
TOKENS = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)


@given(team=TOKENS, agent=TOKENS, turn=TOKENS)
def test_a_built_subject_can_be_parsed_back(team: str, agent: str, turn: str) -> None:
    subject = OUTCOME.subject(team=team, agent=agent, turn=turn)
    assert OUTCOME.parse(subject) == {"team": team, "agent": agent, "turn": turn}


@pytest.mark.parametrize("bad", ["", "A", "a.b", "a b", "*", ">", "ä", "x" * 65, "a\n"])
def test_an_id_that_is_no_token_is_refused_in_a_subject(bad: str) -> None:
    for build in (OUTCOME.subject, OUTCOME.filter):
        with pytest.raises(Rejected) as refused:
            build(team=bad, agent="a", turn="t")
        assert refused.value.code == "bad_token"


@pytest.mark.parametrize("ids", [{"team": "t"}, {"team": "t", "agent": "a", "turn": "x", "more": "y"}])
def test_missing_and_unknown_ids_are_rejected(ids: dict[str, str]) -> None:
    with pytest.raises(Rejected):
        OUTCOME.subject(**ids)


def test_ids_that_are_not_given_are_wildcards_in_a_filter() -> None:
    assert OUTCOME.filter(agent="harper") == "pallas.v1.turn.outcome.*.harper.*"


@pytest.mark.parametrize(
    "other", ["pallas.v1.turn.outcome.t.a", "pallas.v1.turn.event.t.a.x", "pallasXv1.turn.outcome.t.a.x", ""]
)
def test_a_subject_of_another_template_is_not_parsed(other: str) -> None:
    assert OUTCOME.parse(other) is None
