"""The random seed of tests: the same each time, so that results do not depend on chance.

`make chaos` sets PALLAS_TEST_SEED to another number each time. Storms print it; Hypothesis prints how to repeat. As in
its profile `ci`, an example may take long: the machine may be busy.
"""

import os

from hypothesis import settings

SEED = int(os.environ.get("PALLAS_TEST_SEED", "1"))

settings.register_profile(
    "same each time", settings.get_profile("ci"), derandomize="PALLAS_TEST_SEED" not in os.environ
)
settings.load_profile("same each time")
