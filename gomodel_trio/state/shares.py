"""What every target would weigh now in the adaptive virtual models, for operators.

Layer: state; reads the tables, changes nothing. Source: behaviour.md §5 (weight, draw).
"""

from gomodel_trio.route.names import Kind, TargetId
from gomodel_trio.route.policy import Strategy
from gomodel_trio.state.commands import Decide, TargetWeight
from gomodel_trio.state.selector import select
from gomodel_trio.state.tables import RoutingState


def weights_of(state: RoutingState, at_s: float) -> dict[TargetId, list[TargetWeight]]:
    """Tell the weights for requests without a session, by target; chained legs have none of their own.

    A share is that of a single draw: two are made and the lower load wins, so equally loaded targets get just these.
    """
    found: dict[TargetId, list[TargetWeight]] = {}
    if not state.has_selector:
        return found
    for source, model in state.policy.virtual_models.items():
        branch = state.branch(model)
        if not model.enabled or model.strategy is not Strategy.ADAPTIVE or len(branch.nodes) < 2:
            continue
        for kind in Kind:
            asked = Decide(source, None, "", kind)
            try:
                weights = select(state, source, branch.nodes, asked, at_s=at_s, draws=(0.0, 0.0), allows_probe=False).made.weights
            except ValueError:  # all of them cool: nobody would be drawn
                weights = (0.0,) * len(branch.nodes)
            total = sum(weights) or 1.0
            for leg, weight in zip(branch.nodes, weights, strict=True):
                if leg.branch is None:
                    found.setdefault(leg.targets[0], []).append(TargetWeight(source, kind, weight, weight / total))
    return found
