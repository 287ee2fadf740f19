"""What `explain --url` makes of whatever answers there (behaviour.md §10)."""

import socket
import threading
from collections.abc import Callable

import pytest

from gomodel_trio.replay.remote import NotExplained, explain_at
from gomodel_trio.wire.dialect import Api

KEY = "gw-sécret"


@pytest.fixture
def told() -> list[bytes]:
    """What the answering side was sent, request by request."""
    return []


@pytest.fixture
def answering(told: list[bytes]) -> "Callable[[bytes], str]":
    """Answer one request with these bytes, at the URL that is returned."""

    def answer(reply: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(5.0)

        def serve() -> None:
            with listener, listener.accept()[0] as client:
                client.settimeout(5.0)
                received = b""
                while b"\r\n\r\n" not in received or not received.endswith(b"}"):
                    received += client.recv(65536)
                told.append(received)
                client.sendall(reply)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    return answer


def reply(status: str, body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 " + status.encode(), b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", body])


def test_the_request_is_sent_as_it_is_but_for_headers_of_the_connection_and_of_whoever_asks(
    answering: Callable[[bytes], str], told: list[bytes]
) -> None:
    url = answering(reply("200 OK", b'{"resolution":{"target":"a/m"}}'))
    passed = [(b"x-session-id", b"s\xe9"), (b"anthropic-version", b"1")]
    dropped = [(b"host", b"x"), (b"content-length", b"1"), (b"authorization", b"Bearer sk"), (b"x-api-key", b"sk"), (b"origin", b"null")]
    body = b'{"model": "m",  "n": 1.0}'
    assert explain_at(url + "/g/", Api.MESSAGES, [*passed, *dropped], body, key=KEY) == {"resolution": {"target": "a/m"}}
    head, _, sent = told[0].partition(b"\r\n\r\n")
    assert sent == body
    assert head.lower().split(b"\r\n") == [
        b"post /g/admin/explain?api=messages http/1.1",
        b"host: " + url.removeprefix("http://").encode(),
        b"x-session-id: s\xe9",
        b"anthropic-version: 1",
        b"authorization: bearer gw-s\xc3\xa9cret",
        b"content-length: 25",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply("200 OK", b"<html>"), "answered 200: that is no answer of this gateway's admin API"),
        (reply("200 OK", b"[1]"), "answered 200: that is no answer"),
        (reply("200 OK", b'{"status":"ok"}'), "answered 200: that is no answer"),
        (reply("502 Bad Gateway", b"nginx"), "answered 502: that is no answer"),
        (reply("403 Forbidden", b'{"error":{"message":"not\\u001byou"}}'), "answered 403: not you"),
        (reply("401 No", b'{"error":"bad"}'), "answered 401: that is no answer"),
        (reply("302 Found", b"", b"Location: http://127.0.0.1:1/"), "answered 302: that is no answer"),
        (b"SSH-2.0-OpenSSH\r\n", "cannot be asked: "),
        (b"", "cannot be asked: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "answered 200: that is no answer"),
    ],
)
def test_what_is_no_explanation_is_told_in_one_line_without_the_key(answering: Callable[[bytes], str], answer: bytes, words: str) -> None:
    url = answering(answer)
    with pytest.raises(NotExplained) as caught:
        explain_at(url, Api.CHAT, [], b"{}", key=KEY)
    assert str(caught.value).startswith(f"{url} {words}")
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("header", [(b"a\nb", b"x"), (b"a", b"x\r\ny: z")])
def test_a_header_that_http_does_not_allow_is_not_sent(header: tuple[bytes, bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotExplained, match="HTTP does not allow"):
        explain_at(f"http://127.0.0.1:{listener.getsockname()[1]}", Api.CHAT, [header], b"{}", key=None)


def test_a_silent_gateway_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gomodel_trio.replay.remote._TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotExplained, match=r"did not answer within 0\.05 s"):
        explain_at(f"http://127.0.0.1:{listener.getsockname()[1]}", Api.CHAT, [], b"{}", key=None)
