"""What every test may rely on: no keys or proxies of the machine, hypothesis profiles, a fake upstream.

`--front-door` and `--transport` (or their variables) choose what the gateway processes of the tests are made of.
"""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from support.fake_upstream import FakeUpstream, open_on_thread
from support.gateway_process import FRONT_DOOR, PARTS

# No deadline: it would measure what else the machine does. Elsewhere examples are drawn anew in each run, so that many runs see many
# inputs; in CI the same ones each time, so that a red run means this change and can be repeated. Reproduce a finding as it prints.
hypothesis.settings.register_profile("dev", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for each part of the gateway that there are two of."""
    for part in PARTS:
        parser.addoption(part.option, choices=part.choices, help=f"{part.setting} of every gateway process; else {part.variable} tells")


def pytest_configure(config: pytest.Config) -> None:
    """Forget what would lead clients elsewhere or configure the gateway under test, and set what it is made of."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("OPENAI_", "ANTHROPIC_", "PRO_", "PROMETHEUS_")):
            del os.environ[name]
    for part in PARTS:
        chosen = config.getoption(part.option) or part.chosen()
        if chosen is not None and chosen not in part.choices:
            raise pytest.UsageError(f"{part.variable}={chosen}: must be one of {', '.join(part.choices)}")
        if chosen is not None:
            os.environ[part.variable] = chosen
    config.addinivalue_line("markers", "front_door(name, reason): what only that front door can give")


def pytest_report_header() -> str:
    """Say what the gateway processes are made of."""
    return "gateway processes: " + ", ".join(f"{part.setting}={part.chosen() or 'default'}" for part in PARTS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what the chosen front door cannot give."""
    chosen = FRONT_DOOR.chosen()
    for item in items:
        for mark in item.iter_markers("front_door"):
            if chosen is not None and mark.args[0] != chosen:
                item.add_marker(pytest.mark.skip(reason=f"{mark.args[0]} only: {mark.kwargs['reason']}"))


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    """A fake upstream on a thread of its own."""
    with open_on_thread() as fake:
        yield fake
