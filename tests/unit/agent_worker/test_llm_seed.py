"""How the arguments of a call become the history and images of an agent."""

import logging

import pytest

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_hosting.seed import MOST_IMAGES, MOST_ROWS, Image, Row, read_seed

PNG = {"data": "aGVsbG8=", "mime_type": "image/png"}


def test_history_is_read_in_order_with_its_images() -> None:
    rows = [{"role": "user", "content": "a", "images": [PNG]}, {"role": "assistant", "content": "b"}]
    seed = read_seed({"message": "c", "history": rows}, vision=True)
    assert seed.history == (Row("user", "a", (Image(b"hello", "image/png"),)), Row("assistant", "b"))


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        None,
        7,
        ["user", "x"],
        {},
        {"role": "system", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 1},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "x", "images": "no list"},
        {"role": "user", "content": "x", "images": [{"mime_type": "image/png"}]},
        {"role": "user", "content": "x", "images": [{"data": "aGVsbG8="}]},
        {"role": "user", "content": "x", "images": [{"data": "%%%", "mime_type": "image/png"}]},
        {"role": "user", "content": "x", "images": [{"data": "aGVsbG8", "mime_type": "image/png"}]},
        {"role": "user", "content": "x", "images": ["no object"]},
    ],
)
@pytest.mark.parametrize("vision", [True, False])
def test_a_bad_row_is_skipped_with_a_warning_and_the_rest_is_used(
    bad: object, vision: bool, caplog: pytest.LogCaptureFixture
) -> None:
    good = {"role": "user", "content": "kept"}
    with caplog.at_level(logging.WARNING):
        seed = read_seed({"message": "m", "history": [good, bad, good]}, vision=vision)
    assert [row.content for row in seed.history] == ["kept", "kept"]
    assert "history rows skipped" in caplog.messages


def test_skipped_rows_are_one_warning_with_their_count_and_the_first_of_them(caplog: pytest.LogCaptureFixture) -> None:
    rows: list[object] = [{"role": "user", "content": "kept"}, *([0] * (MOST_ROWS - 1))]
    with caplog.at_level(logging.WARNING):
        seed = read_seed({"message": "m", "history": rows}, vision=True)
    assert len(seed.history) == 1
    (warning,) = caplog.records
    facts = vars(warning)
    assert (facts["skipped"], facts["rows"]) == (MOST_ROWS - 1, list(range(1, 21)))
    assert facts["reason"] == "is not an object"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"history": [0] * (MOST_ROWS + 1)}, "'history' must have at most 10,000 items"),
        (
            {"history": [{"role": "user", "content": "x", "images": [PNG] * 600}] * 2},
            "'history' must have at most 1,000",
        ),
        ({"images": [PNG] * (MOST_IMAGES + 1)}, "'images' must have at most 1,000 items"),
    ],
    ids=["rows", "images of rows", "images"],
)
def test_more_rows_or_images_than_the_bound_are_refused_without_a_warning(
    arguments: JsonObject, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(Rejected, match=sentence) as caught:
        read_seed({"message": "m", **arguments}, vision=True)
    assert caught.value.code == "invalid_arguments"
    assert not caplog.records


def test_images_of_the_call_need_a_model_with_vision() -> None:
    with pytest.raises(Rejected) as caught:
        read_seed({"message": "m", "images": [PNG]}, vision=False)
    assert caught.value.code == "vision_required"


def test_images_of_the_history_are_left_out_with_a_warning_without_vision(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        seed = read_seed({"message": "m", "history": [{"role": "user", "content": "a", "images": [PNG]}]}, vision=False)
    assert seed.history == (Row("user", "a"),)
    assert any("left out" in message for message in caplog.messages)


def test_a_bad_image_of_the_call_itself_is_refused() -> None:
    with pytest.raises(Rejected) as caught:
        read_seed({"message": "m", "images": [{"data": "%", "mime_type": "image/png"}]}, vision=True)
    assert caught.value.code == "invalid_arguments"


def test_the_message_must_be_text() -> None:
    with pytest.raises(Rejected):
        read_seed({"message": None}, vision=True)
