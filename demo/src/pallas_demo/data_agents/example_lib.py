"""The functions of Constellation's example library, with their names and types.

They are about numbers and text, and about services that are slow or fail, to try time limits and retries with.
"""

import random
import time
from collections.abc import Callable

from pallas_data_agent import DataAgent, ToolError

example_lib = DataAgent("example_lib", title="Example library", timeout=10, max_concurrency=16)

_chance = random.SystemRandom()


def _module[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Make `sum_list` the tool `SumList`."""
    words = function.__name__.split("_")
    return example_lib.tool(name="".join(map(str.capitalize, words)))(function)


@_module
def sum_list(numbers: list[int]) -> int:
    """The sum of the numbers."""
    return sum(numbers)


@_module
def average(numbers: list[int]) -> float:
    """The mean of the numbers; 0 if there are none."""
    return sum(numbers) / len(numbers) if numbers else 0.0


@_module
def max_(numbers: list[int]) -> int:
    """The greatest number; 0 if there is none."""
    return max(numbers, default=0)


@_module
def min_(numbers: list[int]) -> int:
    """The least number; 0 if there is none."""
    return min(numbers, default=0)


@_module
def filter_greater_than(numbers: list[int], threshold: int) -> list[int]:
    """The numbers above the threshold."""
    return [number for number in numbers if number > threshold]


@_module
def multiply_each(numbers: list[int], multiplier: int) -> list[int]:
    """Each number times the multiplier."""
    return [number * multiplier for number in numbers]


@_module
def range_(start: int, end: int) -> list[int]:
    """The numbers from start to end, both included."""
    return list(range(start, end + 1))


@_module
def format_number(number: int) -> str:
    """The number with commas between thousands."""
    return f"{number:,}"


@_module
def uppercase(text: str) -> str:
    """The text in capital letters."""
    return text.upper()


@_module
def lowercase(text: str) -> str:
    """The text in small letters."""
    return text.lower()


@_module
def trim(text: str) -> str:
    """The text without white space at its ends."""
    return text.strip()


@_module
def replace(text: str, find: str, replace: str) -> str:
    """The text with every occurrence of one text replaced by another."""
    return text.replace(find, replace)


@_module
def word_count(text: str) -> int:
    """The number of words."""
    return len(text.split())


@_module
def text_length(text: str) -> int:
    """The number of characters."""
    return len(text)


@_module
def contains(text: str, substring: str) -> bool:
    """Whether the text has the other one in it."""
    return substring in text


@_module
def split_lines(text: str) -> list[str]:
    """The lines of the text."""
    return text.split("\n")


@_module
def split(text: str, delimiter: str) -> list[str]:
    """The parts of the text between delimiters."""
    return text.split(delimiter) if delimiter else [text]


@_module
def slow_query(query: str) -> str:
    """Answer after half a second."""
    return _after(0.5, f"rows of {query}")


@_module
def slow_api_call(endpoint: str) -> str:
    """Answer after a second."""
    return _after(1.0, f"answer of {endpoint}")


@_module
def expensive_compute(data: str) -> str:
    """Answer after two seconds."""
    return _after(2.0, f"computed {data}")


@_module
def flaky_service(request: str) -> str:
    """Fail in one of two calls."""
    if _chance.random() < 0.5:
        raise ToolError("the service is not available")
    return f"served {request}"


@_module
def timeout_prone_service(request: str) -> str:
    """Answer after up to three seconds."""
    return _after(_chance.uniform(0.1, 3.0), f"served {request}")


@_module
def rate_limited_api(request: str) -> str:
    """Refuse one of five calls, as if they were too many."""
    if _chance.random() < 0.2:
        raise ToolError("too many requests")
    return f"served {request}"


@_module
def resource_intensive_task(task: str) -> str:
    """Take 16 MB of memory for a moment."""
    return f"{task} done with {len(bytearray(16 * 10**6)):,} bytes"


@_module
def quick_check(data: str) -> str:
    """Answer at once."""
    return f"checked {data}"


@_module
def deep_analysis(data: str) -> str:
    """Answer after a second and a half."""
    return _after(1.5, f"analysed {data}")


@_module
def always_fails_service(request: str) -> str:
    """Fail."""
    raise ToolError(f"the service cannot serve {request}")


def _after(seconds: float, answer: str) -> str:
    time.sleep(seconds)
    return answer
