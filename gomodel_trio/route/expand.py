"""What a virtual model stands for: its available legs, chained ones resolved, and the flat list of its targets.

Layer: route. Source: behaviour.md §4 (available, resolution, shadowing).
"""

import msgspec

from gomodel_trio.route.names import TargetId, split_target
from gomodel_trio.route.policy import Policy, VirtualModel
from gomodel_trio.route.resolve import resolve_concrete
from gomodel_trio.wire.dialect import Dialect


class Node(msgspec.Struct, frozen=True):
    """An available leg. `name` is what a pin of the virtual model holds; `branch` is None for a concrete target.

    `targets` are those under it in declared order, each once; `price` is the least of theirs in USD per Mtok, None if all are unpriced.
    """

    name: str
    weight: float
    targets: tuple[TargetId, ...]
    price: float | None
    branch: "Branch | None" = None


class Branch(msgspec.Struct, frozen=True):
    """A virtual model as it can be used now. `configured` names all its legs, available or not."""

    model: VirtualModel
    nodes: tuple[Node, ...]
    targets: tuple[TargetId, ...]
    configured: frozenset[str]


def expand(policy: Policy, model: VirtualModel, dialect: Dialect | None = None) -> Branch:
    """Tell the legs of `model` that are available to requests in `dialect` (None: in any).

    A chained virtual model is one leg, dropped if nothing under it is available. A leg whose virtual model is disabled means the concrete
    model of that name, if there is one.
    """
    return _expand(policy, model, dialect, frozenset({model.source}))


def is_available(policy: Policy, target: TargetId, dialect: Dialect | None = None) -> bool:
    """Whether the target's provider is configured, enabled and speaks `dialect` (None: any), and the target is not disabled."""
    provider = policy.providers.get(split_target(target)[0])
    return provider is not None and provider.can_serve(dialect) and target not in policy.disabled_targets


def is_allowed(model: VirtualModel, user_path: str) -> bool:
    """Whether a caller under `user_path` may use the model: "/team" allows "/team" and "/team/app", not "/teamx"."""
    if not model.user_paths:
        return True
    path = _closed(user_path)
    return any(path.startswith(_closed(allowed)) for allowed in model.user_paths)


def path_to(branch: Branch, target: TargetId) -> tuple[tuple[Branch, Node], ...]:
    """Tell the legs that lead from `branch` to its first occurrence of `target`, outermost first."""
    steps: list[tuple[Branch, Node]] = []
    inner: Branch | None = branch
    while inner is not None:
        node = next(node for node in inner.nodes if target in node.targets)
        steps.append((inner, node))
        inner = node.branch
    return tuple(steps)


def slowdown_of(path: tuple[tuple[Branch, Node], ...]) -> float | None:
    """Tell the slowdown of a path: the outermost one set; 0 ends an inherited one; None is none."""
    return next((branch.model.slowdown for branch, _ in path if branch.model.slowdown is not None), None) or None


def _expand(policy: Policy, model: VirtualModel, dialect: Dialect | None, above: frozenset[str]) -> Branch:
    nodes: list[Node] = []
    for leg in model.legs:
        inner = policy.virtual_models.get(leg.name) if leg.is_virtual else None
        if inner is not None and inner.enabled:
            # The configuration refuses cycles; a policy made by hand must not hang the one task that decides.
            branch = None if inner.source in above else _expand(policy, inner, dialect, above | {inner.source})
            if branch is not None and branch.nodes:
                nodes.append(Node(leg.name, leg.weight, branch.targets, _least_price(policy, branch.targets), branch))
            continue
        target = resolve_concrete(policy.providers, leg.name, dialect=dialect) if leg.is_virtual else TargetId(leg.name)
        if target is not None and is_available(policy, target, dialect):
            nodes.append(Node(leg.name, leg.weight, (target,), _least_price(policy, (target,))))
    targets = tuple(dict.fromkeys(target for node in nodes for target in node.targets))
    return Branch(model, tuple(nodes), targets, frozenset(leg.name for leg in model.legs))


def _least_price(policy: Policy, targets: tuple[TargetId, ...]) -> float | None:
    return min((policy.prices[target].total_usd_per_mtok for target in targets if target in policy.prices), default=None)


def _closed(path: str) -> str:
    """A path as a prefix that ends at a segment's border: "/team" and "/team/" → "/team/", "/" → "/"."""
    stripped = path.strip("/")
    return f"/{stripped}/" if stripped else "/"
