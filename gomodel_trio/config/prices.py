"""What models cost: the operator's prices, else those of the packaged list, with where each came from.

Layer: config. `prices.json` is made by `scripts/update_prices` from genai-prices, whose rules for finding a model by its id are kept.
Source: behaviour.md §8. Prices are USD per million tokens, of the lowest context tier, without batch or cache discounts.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from importlib.resources import files

import msgspec

from gomodel_trio.config.settings import ProviderSettings
from gomodel_trio.route.names import TargetId, split_target
from gomodel_trio.route.policy import Price

LIST_OF_TYPE = {
    "openai": "openai",
    "azure": "azure",
    "openrouter": "openrouter",
    "groq": "groq",
    "xai": "x-ai",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "mistral": "mistral",
    "together": "together",
    "gemini": "google",
    "vertex": "google",
    "bedrock": "aws",
    "anthropic": "anthropic",
}
"""Whose prices a provider type charges, by the list's own names. Types that are not here are the operator's own machines, or anybody's."""

CONFIGURATION = "configuration"
"""The origin of a price that the operator gave."""

_SELLS_ITS_OWN_ONLY = frozenset({"gemini"})
"""Types that serve no models of other makers, though their list is shared with one that does."""
_PREFIXES = {"gemini": ("models/",), "vertex": ("google/",)}
"""What may stand before the id that the list knows, by provider type."""
_PROFILE_OR_MODEL = re.compile(r"arn:[^/]*:(?:inference-profile|foundation-model)/")
"""The head of an Amazon resource name that ends in an id the list knows; an application's own profile tells nothing."""
_COMPACT_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=-|:|$)")


class Priced(msgspec.Struct, frozen=True):
    """A price and its origin, `configuration` or `packaged list of 2026-11-30`."""

    price: Price
    origin: str


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A model of the list. `rules` are alternatives, each one test or several that must all hold; without prices it has none for tokens.

    A test is `=`, `^`, `$` or `*` and the text that the id equals, begins with, ends with or holds, or `~` and a regular expression.
    """

    id: str
    rules: tuple[str | tuple[str, ...], ...]
    input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    cached_input_usd_per_mtok: float | None = None
    cache_write_usd_per_mtok: float | None = None


class _List(msgspec.Struct, frozen=True):
    """One seller's list. `fallbacks` are lists to ask when none of its own rules holds: makers whose models it resells."""

    models: tuple[Entry, ...]
    fallbacks: tuple[str, ...] = ()


class _Seller:
    """One seller's list, ready to be searched: whole ids by a table, since a marketplace has hundreds, all other rules in turn."""

    def __init__(self, listed: _List) -> None:
        self.fallbacks = listed.fallbacks
        self._entries = listed.models
        self._places: dict[str, int] = {}
        self._rules: list[tuple[int, tuple[str, ...]]] = []
        for place, entry in enumerate(listed.models):
            for rule in entry.rules:
                if isinstance(rule, str) and rule[0] == "=":
                    self._places.setdefault(rule[1:], place)
                else:
                    self._rules.append((place, (rule,) if isinstance(rule, str) else rule))

    def find(self, model: str) -> Entry | None:
        """The first entry of which a rule holds."""
        first = self._places.get(model, len(self._entries))
        for place, tests in self._rules:
            if place >= first:
                break
            if all(_passes(test, model) for test in tests):
                return self._entries[place]
        return self._entries[first] if first < len(self._entries) else None


class _Document(msgspec.Struct, frozen=True):
    """The file; its lists stay undecoded until one is asked for."""

    date: date
    source: str
    licence: str
    lists: dict[str, msgspec.Raw]


class PriceList:
    """A list of prices, read at the first question; each seller's part is decoded when it is needed and then kept."""

    def __init__(self, document: bytes | None = None) -> None:
        """`document`: the JSON; without it the packaged one.

        Raises:
            msgspec.DecodeError: by the first question, if it is no such document.
        """
        self._bytes = document
        self._document: _Document | None = None
        self._sellers: dict[str, _Seller] = {}

    @property
    def origin(self) -> str:
        """What its prices say of where they came from."""
        return f"packaged list of {self._read().date.isoformat()}"

    @property
    def source(self) -> str:
        """The package and version that it was made from."""
        return self._read().source

    def price_of(self, provider_type: str, model: str) -> Priced | None:
        """The price of `model` at a provider of that type; None where the list does not know it or it is not sold by the token."""
        entry = self.find(provider_type, model)
        if entry is None or entry.input_usd_per_mtok is None or entry.output_usd_per_mtok is None:
            return None
        return Priced(Price(entry.input_usd_per_mtok, entry.output_usd_per_mtok), self.origin)

    def find(self, provider_type: str, model: str) -> Entry | None:
        """The first entry whose rules hold for the id; if none does, for the id with its date written `-2026-11-30`."""
        name = LIST_OF_TYPE.get(provider_type)
        if name is None:
            return None
        plain = _plain(provider_type, model.lower())
        sellers = (name, *(() if provider_type in _SELLS_ITS_OWN_ONLY else self._seller(name).fallbacks))
        for text in dict.fromkeys((plain, _COMPACT_DATE.sub(_dashed, plain))):
            for seller in sellers:
                found = self._seller(seller).find(text)
                if found is not None:
                    return found
        return None

    def _seller(self, name: str) -> _Seller:
        if name not in self._sellers:
            self._sellers[name] = _Seller(msgspec.json.decode(self._read().lists[name], type=_List))
        return self._sellers[name]

    def _read(self) -> _Document:
        if self._document is None:
            text = self._bytes if self._bytes is not None else files("gomodel_trio.config").joinpath("prices.json").read_bytes()
            self._document = msgspec.json.decode(text, type=_Document)
        return self._document


def price_targets(targets: Iterable[TargetId], providers: Mapping[str, ProviderSettings], packaged: PriceList) -> dict[TargetId, Priced]:
    """The prices of `targets` as far as there are any: the operator's before the packaged list's."""
    configured = {name: {model.id: model.price for model in provider.models} for name, provider in providers.items()}
    priced: dict[TargetId, Priced] = {}
    for target in targets:
        name, model = split_target(target)
        if name not in providers:
            continue
        own = configured[name].get(model)
        found = Priced(own, CONFIGURATION) if own is not None else packaged.price_of(providers[name].type, model)
        if found is not None:
            priced[target] = found
    return priced


def _plain(provider_type: str, model: str) -> str:
    """The id without what only says where it is to be found."""
    for prefix in _PREFIXES.get(provider_type, ()):
        model = model.removeprefix(prefix)
    return _PROFILE_OR_MODEL.sub("", model) if provider_type == "bedrock" and model.startswith("arn:") else model


def _passes(test: str, model: str) -> bool:
    text = test[1:]
    match test[0]:
        case "=":
            return model == text
        case "^":
            return model.startswith(text)
        case "$":
            return model.endswith(text)
        case "*":
            return text in model
        case _:
            return re.search(text, model) is not None


def _dashed(found: re.Match[str]) -> str:
    """A date that a router wrote without hyphens, as most lists write it; digits that are no date stay."""
    year, month, day = (int(part) for part in found.groups())
    try:
        return f"-{date(year, month, day).isoformat()}"
    except ValueError:
        return found.group()
