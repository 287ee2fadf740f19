"""What `serve --demo` adds: an alias and two virtual models over the built-in provider, unless the operator has them.

Layer: config. Source: behaviour.md §10.
"""

from gomodel_trio.config.virtual_models import Entry, Target
from gomodel_trio.route.policy import Alias, VirtualModel

_PLACE = "--demo"
_ALIAS = Alias("normal", "normal-easy", "normal-hard")
_TARGETS = {"normal-easy": "echo/echo-small", "normal-hard": "echo/echo-large"}


def add_demo(aliases: dict[str, Alias], entries: dict[str, Entry]) -> None:
    """Add what is not there yet; an alias or a virtual model of the operator's keeps its name."""
    if _ALIAS.name not in entries:
        aliases.setdefault(_ALIAS.name, _ALIAS)
    for source, target in _TARGETS.items():
        if source not in aliases:
            model = VirtualModel(source, (), description="demonstration")
            entries.setdefault(source, Entry(model, (Target(target, None, 0.0, _PLACE),), _PLACE))
