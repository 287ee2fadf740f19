"""What a client wants that a form has not: which of it a writer must refuse, and which it may leave out.

Layer: translate; pure. Source: behaviour.md §7 (a loss that changes the meaning).

A tool that runs at its provider and is only *offered*, beside functions of the client's own, may never have been used: without it the
request means the same. Forced, or the only tool, it is what the request is about.
"""

from typing import Final

from gomodel_trio.translate.canonical import Request, Want

HOSTED: Final = (
    "web_search",
    "web_fetch",
    "file_search",
    "code_interpreter",
    "code_execution",
    "image_generation",
    "computer",
    "mcp",
    "tool_search",
    "advisor",
)
"""How the types of tools begin that run at their provider (`web_search_preview`, `web_search_20250305`)."""


def refused(request: Request, able: frozenset[str] = frozenset()) -> Want | None:
    """The first want that a writer must refuse; `able`: features that its form has."""
    for want in request.wants:
        if want.feature in able or _is_mere_offer(request, want):
            continue
        return want
    return None


def _is_mere_offer(request: Request, want: Want) -> bool:
    is_tool = want.field.startswith("tools[") and want.field.endswith(".type")
    return is_tool and bool(request.tools) and want.feature.startswith(HOSTED)
