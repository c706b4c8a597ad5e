"""What an agent is sent of a conversation."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from workspaces.chat.history import (
    BYTES_PER_TOKEN,
    LARGEST_REQUEST,
    TOKENS_PER_IMAGE,
    Entry,
    Limits,
    Model,
    Plan,
    exchanges,
    halve,
    plan_history,
)

SIZES = st.one_of(st.integers(0, 2000), st.integers(0, 2_000_000))
IMAGES = st.lists(st.integers(1, 5 * 2**20), max_size=4).map(tuple)
TALKS = st.lists(st.tuples(SIZES, SIZES, IMAGES, st.sampled_from(["answered", "answered", "failed", "cancelled"])))
MODELS = st.builds(
    Model,
    vision=st.booleans(),
    context_window=st.one_of(st.none(), st.integers(1, 2_000_000)),
    max_output_tokens=st.one_of(st.none(), st.integers(1, 2_000_000)),
)
LIMITS = st.builds(Limits, share=st.floats(0.05, 0.95), messages=st.integers(0, 100), bytes=st.integers(0, 1_000_000))


def talk(ends: Sequence[tuple[int, int, tuple[int, ...], str]]) -> list[Entry]:
    """A conversation of these exchanges."""
    entries = list[Entry]()
    for number, (asked, answered, images, end) in enumerate(ends):
        entries.append(Entry(2 * number + 1, "user", "answered", asked, images))
        entries.append(Entry(2 * number + 2, "assistant", end, answered))
    return entries


def short(number: int, size: int = 350) -> list[Entry]:
    """A conversation of so many exchanges of 100 tokens each message."""
    return talk([(size, size, (), "answered")] * number)


def asked_after(entries: Sequence[Entry], size: int = 350, images: tuple[int, ...] = ()) -> Entry:
    """The message that is to be answered."""
    return Entry(len(entries) + 1, "user", "answered", size, images)


def sent(entries: Sequence[Entry], plan: Plan) -> list[Entry]:
    """The messages that are sent by a plan."""
    return [entry for exchange in exchanges(entries) for entry in exchange if entry.seq >= plan.first]


@given(TALKS, SIZES, MODELS, LIMITS)
def test_the_newest_exchanges_are_kept_whole_and_fit(
    ends: list[tuple[int, int, tuple[int, ...], str]], size: int, model: Model, limits: Limits
) -> None:
    entries = talk(ends)
    asked = asked_after(entries, size)
    plan = plan_history(entries, asked, model, limits)
    kept = sent(entries, plan)
    assert len(kept) % 2 == 0
    assert plan.first == (kept[0].seq if kept else asked.seq)
    images = [image for entry in kept if plan.images is not None and entry.seq >= plan.images for image in entry.images]
    if kept:
        assert sum(entry.bytes for entry in kept) + sum(images) * 4 // 3 + size <= LARGEST_REQUEST
        tokens = sum(entry.bytes / BYTES_PER_TOKEN for entry in kept)
        if model.context_window is None:
            assert len(kept) <= limits.messages
            assert tokens <= limits.bytes / BYTES_PER_TOKEN
        else:
            assert tokens + size / BYTES_PER_TOKEN <= limits.share * model.context_window
    assert plan.images is None or (model.vision and plan.images >= plan.first)


@given(TALKS, MODELS, LIMITS)
def test_halving_ends(ends: list[tuple[int, int, tuple[int, ...], str]], model: Model, limits: Limits) -> None:
    entries = talk(ends)
    plan: Plan | None = plan_history(entries, asked_after(entries), model, limits)
    while plan is not None:
        shorter = halve(entries, plan)
        assert shorter is None or len(sent(entries, shorter)) < len(sent(entries, plan))
        plan = shorter


def test_exchanges_without_an_answer_are_left_out_as_a_whole() -> None:
    entries = talk([(1, 2, (), "answered"), (3, 4, (), "failed"), (5, 6, (), "cancelled"), (7, 8, (), "answered")])
    assert [entry.bytes for pair in exchanges(entries) for entry in pair] == [1, 2, 7, 8]
    assert [entry.bytes for pair in exchanges(entries[1:]) for entry in pair] == [7, 8]


def test_history_takes_its_share_of_the_window() -> None:
    entries = short(20)
    model = Model(context_window=2000, max_output_tokens=300)
    plan = plan_history(entries, asked_after(entries), model, Limits(share=0.7))
    # 0.7 · 2000 - 300 for the answer - 100 for the message: 1000 tokens, so five exchanges of 200
    assert len(sent(entries, plan)) == 10
    wider = plan_history(entries, asked_after(entries), Model(context_window=20_000), Limits(share=0.7))
    assert wider.first == 1


def test_an_output_limit_as_large_as_the_window_leaves_half_of_the_room() -> None:
    entries = short(20)
    model = Model(context_window=2000, max_output_tokens=2000)
    assert len(sent(entries, plan_history(entries, asked_after(entries), model, Limits(share=0.7)))) == 6


def test_without_a_known_window_messages_and_bytes_are_limited() -> None:
    entries = short(50)
    assert len(sent(entries, plan_history(entries, asked_after(entries), Model(), Limits()))) == 40
    assert len(sent(entries, plan_history(entries, asked_after(entries), Model(), Limits(bytes=1400)))) == 4


def test_without_history_a_plan_begins_with_the_message_itself() -> None:
    assert plan_history([], asked_after([]), Model(vision=True), Limits()) == Plan(1, None)
    large = talk([(10**7, 10**7, (), "answered")])
    assert plan_history(large, asked_after(large), Model(), Limits()) == Plan(3, None)


def test_images_count_for_models_that_see_them() -> None:
    entries = talk([(0, 0, (100,) * 3, "answered")] * 3)
    asked = asked_after(entries, 0)
    model = Model(vision=True, context_window=10_000)
    assert 0.7 * 10_000 / (3 * TOKENS_PER_IMAGE) < 3
    assert plan_history(entries, asked, model, Limits()) == Plan(3, 3)
    assert plan_history(entries, asked, Model(context_window=10_000), Limits()) == Plan(1, None)


def test_the_oldest_images_go_when_the_request_is_too_large() -> None:
    entries = talk([(10, 10, (5 * 2**20,), "answered")] * 4)
    plan = plan_history(entries, asked_after(entries, 10), Model(vision=True, context_window=10**6), Limits())
    assert plan == Plan(1, 7)
    with_new = asked_after(entries, 10, (5 * 2**20,))
    assert plan_history(entries, with_new, Model(vision=True, context_window=10**6), Limits()) == Plan(1, None)


def test_half_of_a_history_is_its_newer_half() -> None:
    entries = short(8)
    assert halve(entries, Plan(1, None)) == Plan(9, None)
    assert halve(entries, Plan(9, 11)) == Plan(13, 13)
    assert halve(entries, Plan(15, None)) == Plan(17, None)
    assert halve(entries, Plan(17, None)) is None
