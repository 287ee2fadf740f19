import resource

import pytest

from gomodel_trio.service.descriptors import fitting_connections, raise_limit


@pytest.mark.parametrize(
    ("wanted", "limit", "doors", "fitting"),
    [
        (10_000, None, 1, 10_000),
        (10_000, 1_048_576, 1, 10_000),
        (10_000, 20_032, 1, 10_000),
        (10_000, 20_030, 1, 9_999),
        (10_000, 1024, 1, 496),
        (10_000, 1024, 2, 248),
        (7, 1024, 1, 7),
        (10_000, 20, 2, 1),
    ],
)
def test_every_client_leaves_a_descriptor_for_its_provider(wanted: int, limit: int | None, doors: int, fitting: int) -> None:
    assert fitting_connections(wanted, limit, doors=doors) == fitting


def test_the_soft_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: told.append(limits))
    assert (raise_limit(), told) == (4096, [(4096, 4096)])


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_a_system_that_does_not_raise_it_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_limit() == 256


def test_no_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert raise_limit() is None
