"""A provider's proxy: what is a valid URL of one, and how it is shown.

Layer: config. The URL may hold credentials: no message shows it, and what is shown holds none.
"""

import re
from urllib.parse import urlsplit

_UNFIT = re.compile(r"[^\x21-\x7e]")
_SCHEMES = ("http", "https")


def check_proxy_url(text: str) -> str:
    """Check the URL of a proxy and return it.

    Raises:
        ValueError: it is no http or https URL of a host. The message does not show it.
    """
    if _UNFIT.search(text):
        raise ValueError("holds a space, a control character or one beyond ASCII")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ValueError("is no valid URL") from None
    if "://" not in text or url.scheme.lower() not in _SCHEMES:
        raise ValueError("must begin with http:// or https://; other kinds of proxy are not supported")
    if not url.hostname or port == 0:
        raise ValueError("names no host, or none that can be")
    if url.path not in ("", "/") or url.query or url.fragment or text.endswith(("?", "#")):
        raise ValueError("must end with host and port, without a path; a password's '/', '?' and '#' are written %2F, %3F and %23")
    return text


def shown_proxy_url(text: str) -> str:
    """A checked URL without its credentials."""
    url = urlsplit(text)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
