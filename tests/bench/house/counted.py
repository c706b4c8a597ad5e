"""`python -m tests.bench.house.counted MODULE FILE`: a service that counts which of its own functions are called.

SIGUSR1 begins the count; SIGUSR2 ends it and writes FILE: a JSON object of calls by `path:line`.
"""

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import CodeType

from tests.bench.house.size import ROOT

_TOOL = sys.monitoring.PROFILER_ID


def main() -> None:
    """Run the module as its service would be."""
    module, file = sys.argv[1:]
    calls = Counter[CodeType]()

    def count(code: CodeType, _offset: int) -> object:
        if not code.co_filename.startswith(f"{ROOT}/") or "/.venv/" in code.co_filename:
            return sys.monitoring.DISABLE
        calls[code] += 1
        return None

    def begin(*_: object) -> None:
        calls.clear()
        sys.monitoring.set_events(_TOOL, sys.monitoring.events.PY_START)

    def end(*_: object) -> None:
        sys.monitoring.set_events(_TOOL, 0)
        places = {f"{code.co_filename}:{code.co_firstlineno}": number for code, number in calls.items()}
        written = Path(f"{file}.part")
        written.write_text(json.dumps(places), "utf-8")
        written.rename(file)

    sys.monitoring.use_tool_id(_TOOL, "calls")
    sys.monitoring.register_callback(_TOOL, sys.monitoring.events.PY_START, count)
    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
