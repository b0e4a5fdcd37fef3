"""Short runs by default; ELMFIELD_FUZZ=long, or `make fuzz`, for long ones."""

import os

from hypothesis import settings

settings.register_profile("short", derandomize=True, deadline=None, max_examples=24)
settings.register_profile("long", deadline=None, max_examples=5000, print_blob=True)
PROFILE = settings.get_profile(os.environ.get("ELMFIELD_FUZZ", "short"))
