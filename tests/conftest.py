"""What every test may rely on: no keys or proxies of the machine, hypothesis profiles, a fake upstream."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from support.fake_upstream import FakeUpstream, open_on_thread

# No deadline: it would measure what else the machine does. Elsewhere examples are drawn anew in each run, so that many runs see many
# inputs; in CI the same ones each time, so that a red run means this change and can be repeated. Reproduce a finding as it prints.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_configure() -> None:
    """Forget what would lead clients elsewhere or configure the gateway under test."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "ANTHROPIC_", "PRO_", "PROMETHEUS_")):
            del os.environ[name]


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    """A fake upstream on a thread of its own."""
    with open_on_thread() as fake:
        yield fake
