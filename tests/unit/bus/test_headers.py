"""Headers in the bytes of a message."""

from pallas_bus.headers import decoded, encoded


def test_headers_are_read_as_they_were_written() -> None:
    headers = {"Nats-Msg-Id": "turn.outcome:1", "traceparent": "00-1", "empty": "", "name": "Zoë: a, b"}
    first, _, rest = encoded(headers).partition(b"\r\n")
    assert first == b"NATS/1.0"
    assert rest.endswith(b"\r\n\r\n")
    assert decoded(rest) == headers


def test_a_line_break_adds_no_header_and_ends_no_message() -> None:
    block = encoded({"one": "1\r\n\r\nPUB injected 0\r\n", "two\nthree": "2"})
    assert block.count(b"\n") == 4, "the first line, two headers, the empty line"
    assert decoded(block.removeprefix(b"NATS/1.0\r\n")) == {"one": "1    PUB injected 0", "two three": "2"}


def test_headers_of_other_clients_are_read() -> None:
    assert decoded(b"a:1\r\nb:\t2 \r\nno header\r\nc: \xff\r\n\r\n") == {"a": "1", "b": "2", "c": "\ufffd"}
