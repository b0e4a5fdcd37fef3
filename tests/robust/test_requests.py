"""Requests from seeds to pages of all kinds: shown or refused, never an error of the server's."""

import pytest
from hypothesis import given

from robust.conftest import PROFILE
from support import SEEDS

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def pages():
    from robust.requests import Pages

    with Pages(0) as opened:
        yield opened


@PROFILE
@given(seed=SEEDS)
def test_any_request_is_answered_or_refused(seed, pages):
    from robust.requests import attempt

    asked, found = attempt(seed, pages)
    assert found in ("done", "refused"), asked
