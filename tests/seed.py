"""The random seed of tests: the same each time, so that results do not depend on chance.

`make chaos` sets PALLAS_TEST_SEED to another number each time. Storms print it; Hypothesis prints how to repeat.
"""

import os

from hypothesis import settings

SEED = int(os.environ.get("PALLAS_TEST_SEED", "1"))

settings.register_profile("same each time", derandomize="PALLAS_TEST_SEED" not in os.environ, print_blob=True)
settings.load_profile("same each time")
