"""What tests take for chance: the same each time, so that a change is not stopped by another one's bad luck.

`make chaos` sets PALLAS_TEST_SEED to another number each time. Storms name it; Hypothesis says how to repeat.
"""

import os

from hypothesis import settings

SEED = int(os.environ.get("PALLAS_TEST_SEED", "1"))

settings.register_profile("same each time", derandomize="PALLAS_TEST_SEED" not in os.environ, print_blob=True)
settings.load_profile("same each time")
