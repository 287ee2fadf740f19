"""HTTPS on PORT: the official SDK with an authority of one's own, certificates exchanged on HUP, and what is wrong with them told."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.certificates import Certificates
from support.gateway_process import free_port, run_command
from support.http2_client import exchange as exchange_http2
from support.raw_http import Connection, ConnectionEnded
from support.replies import openai_error
from support.stage import APIS, ApiName, HandUpstream, Stage, open_stage

pytestmark = [pytest.mark.e2e, pytest.mark.front_door("h1", reason="hypercorn's front door has no TLS")]

CONTENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
MESSAGES: Any = [{"role": "user", "content": "Grüße, 世界"}]


@contextlib.contextmanager
def open_secured(directory: Path, **variables: str) -> Iterator[tuple[Stage, Certificates]]:
    certificates = Certificates(directory)
    given = {**certificates.variables, **variables}
    with open_stage(directory, given, pools={"a": 10, "ab": 5}, client_tls=certificates.client()) as stage:
        yield stage, certificates


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stage, Certificates]]:
    with open_secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


def reload(stage: Stage, certificates: Certificates) -> None:
    """Send HUP, and trust what is served from then on."""
    before = len(stage.gateway.logged("reloaded"))
    stage.gateway.hang_up()
    stage.gateway.wait_until(lambda: len(stage.gateway.logged("reloaded")) > before)
    stage.gateway.client_tls = certificates.client()


# ---- serving --------------------------------------------------------------------------------------------------------


def test_the_official_sdk_speaks_to_it_with_an_authority_of_its_own(secured: tuple[Stage, Certificates]) -> None:
    stage, certificates = secured
    answering, refusing = stage.pool("a"), stage.pool("a")
    refusing.always(0, openai_error(422, "not so"))
    with openai.OpenAI(
        base_url=f"{stage.gateway.url}/v1",
        api_key="any",
        max_retries=0,
        http_client=openai.DefaultHttpxClient(verify=certificates.client()),
    ) as client:
        whole = client.chat.completions.create(model=answering.name, messages=MESSAGES)
        chunks = list(client.chat.completions.create(model=answering.name, messages=MESSAGES, stream=True))
        with pytest.raises(openai.UnprocessableEntityError, match="not so"):
            client.chat.completions.create(model=refusing.name, messages=MESSAGES)
    assert whole.model == answering.model
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole.choices[0].message.content != ""


def test_the_official_async_sdk_speaks_to_it_too(secured: tuple[Stage, Certificates]) -> None:
    stage, certificates = secured
    pool = stage.pool("a")

    async def ask() -> tuple[str | None, str]:
        async with openai.AsyncOpenAI(
            base_url=f"{stage.gateway.url}/v1",
            api_key="any",
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=certificates.client()),
        ) as client:
            whole = await client.chat.completions.create(model=pool.name, messages=MESSAGES)
            stream = await client.chat.completions.create(model=pool.name, messages=MESSAGES, stream=True)
            return whole.choices[0].message.content, "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    whole, streamed = asyncio.run(ask())
    assert whole == streamed != ""


@pytest.mark.parametrize("api", APIS)
def test_whole_answers_and_streams_pass_byte_for_byte(secured: tuple[Stage, Certificates], api: ApiName) -> None:
    stage, _ = secured
    pool = stage.pool("a", "b", api=api)
    pool.tell(0, pool.error(503))
    whole, streamed = pool.ask(text="ü" * 200_000), pool.ask(stream=True)
    assert (whole.status, whole.body, whole.get("x-gomodel-attempts")) == (200, pool.whole().body, "2")
    assert (streamed.status, streamed.body, streamed.is_complete) == (200, pool.streamed().body, True)


def test_a_stream_that_is_cut_is_seen_to_be_cut(secured: tuple[Stage, Certificates]) -> None:
    pool = secured[0].pool("a")
    pool.tell(0, pool.streamed().cut_after(6))
    answer = pool.ask(stream=True)
    assert (answer.status, answer.is_complete) == (200, False)
    assert b'"code":"stream_incomplete"' in answer.body


def test_a_client_that_leaves_cancels_the_upstream(secured: tuple[Stage, Certificates]) -> None:
    stage, _ = secured
    pool = stage.pool("a", "b")
    pool.tell(0, pool.whole().held(20.0))
    connection = pool.open()
    stage.upstream.wait_until(lambda _: pool.calls() == "a")
    connection.close()
    stage.upstream.wait_until(lambda _: pool.exchanges()[0].ending == "client_closed", timeout_s=1.0)
    assert pool.log_line()["outcome"] == "client_cancelled"
    assert pool.calls() == "a"


def test_who_trusts_another_authority_or_speaks_no_tls_is_not_served_and_harms_nobody(secured: tuple[Stage, Certificates]) -> None:
    stage, _ = secured
    with pytest.raises(ssl.SSLCertVerificationError):
        Connection(stage.gateway.port, tls=ssl.create_default_context())
    with Connection(stage.gateway.port) as plain:
        plain.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        with contextlib.suppress(ConnectionEnded):  # an alert and an end, or a reset
            assert b"HTTP/1.1 200" not in plain.read_rest()
    assert stage.gateway.exchange("GET", "/health").status == 200


def test_the_start_tells_that_it_serves_https(secured: tuple[Stage, Certificates]) -> None:
    (line,) = secured[0].gateway.logged("listening")
    assert line["tls"] is True


# ---- other certificates ---------------------------------------------------------------------------------------------


def test_hup_takes_a_new_certificate_and_disturbs_nobody(tmp_path: Path) -> None:
    hand = HandUpstream()
    with open_secured(tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=f"http://127.0.0.1:{hand.port}/v1") as (stage, certificates):
        before = certificates.client()
        with Connection(stage.gateway.port, tls=before) as running, Connection(stage.gateway.port, tls=before) as kept:
            kept.request("GET", "/health")
            assert kept.read_answer().status == 200
            running.request("POST", "/v1/chat/completions", body={"model": "openai/m", "stream": True, "messages": MESSAGES})
            with hand.accept() as upstream:
                upstream.read_request()
                upstream.start_stream("connection: close")
                upstream.send_chunk(CONTENT)
                running.read_head()
                assert running.read_chunk() == CONTENT
                certificates.issue()
                Connection(stage.gateway.port, tls=before).close()
                reload(stage, certificates)
                with pytest.raises(ssl.SSLCertVerificationError):
                    Connection(stage.gateway.port, tls=before)
                assert stage.gateway.exchange("GET", "/health").status == 200
                kept.request("GET", "/health")
                assert kept.read_answer().status == 200
                upstream.send_chunk(FINISH)
                upstream.send_chunk(b"")
                assert (running.read_chunk(), running.read_chunk()) == (FINISH, b"")
    hand.close()


def spoil(certificates: Certificates, how: str) -> None:
    match how:
        case "a key of another certificate":
            certificates.key_file.write_bytes(certificates.authority.issue_cert("x.test").private_key_pem.bytes())
        case "a certificate that is none":
            certificates.cert_file.write_text("garbage", encoding="utf-8")
        case "no certificate":
            certificates.cert_file.unlink()
        case "no key":
            certificates.key_file.unlink()


SPOILED = {
    "a key of another certificate": "TLS_KEY_FILE",
    "a certificate that is none": "TLS_CERT_FILE",
    "no certificate": "TLS_CERT_FILE",
    "no key": "TLS_KEY_FILE",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_bad_certificate_on_hup_changes_nothing_and_says_so(tmp_path: Path, how: str) -> None:
    with open_secured(tmp_path, HTTP2_PORT=str(free_port())) as (stage, certificates):
        config = json.loads((tmp_path / "config.yaml").read_text(encoding="utf-8"))
        config["virtual_models"].append({"source": "brand-new", "targets": [{"model": "b/brand-new"}]})
        (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        spoil(certificates, how)
        stage.gateway.hang_up()
        (fault,) = stage.gateway.wait_for_log("reload_failed")["faults"]
        assert fault.startswith(SPOILED[how])
        assert stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "brand-new", "messages": MESSAGES}).status == 404
        assert stage.gateway.http2_port is not None
        assert exchange_http2(stage.gateway.http2_port, "GET", "/health", tls=certificates.client("h2")).status == 200
        certificates.issue()
        reload(stage, certificates)
        assert stage.gateway.exchange("POST", "/v1/chat/completions", body={"model": "brand-new", "messages": MESSAGES}).status == 200


# ---- starting -------------------------------------------------------------------------------------------------------


def start(directory: Path, variables: dict[str, str]) -> str:
    """What a start that fails says."""
    base = {"ECHO_ENABLED": "true", "HOST": "127.0.0.1", "PORT": "0"}
    run = run_command("serve", directory=directory, variables={**base, **variables})
    assert (run.returncode, "Traceback" in run.stderr + run.stdout) == (2, False)
    return run.stderr


@pytest.mark.parametrize("how", SPOILED)
def test_a_bad_certificate_ends_the_start_and_is_named_by_its_variable(tmp_path: Path, how: str) -> None:
    certificates = Certificates(tmp_path)
    spoil(certificates, how)
    said = start(tmp_path, certificates.variables)
    (line,) = [line for line in said.splitlines() if SPOILED[how] + ":" in line]
    assert str(tmp_path) in line
    assert "PRIVATE KEY" not in said


@pytest.mark.parametrize(("given", "missing"), [("TLS_CERT_FILE", "TLS_KEY_FILE"), ("TLS_KEY_FILE", "TLS_CERT_FILE")])
def test_one_file_without_the_other_is_a_fault(tmp_path: Path, given: str, missing: str) -> None:
    said = start(tmp_path, {given: Certificates(tmp_path).variables[given]})
    assert f"{missing}: must be set, too, where {given} is" in said


def test_hypercorns_front_door_refuses_to_serve_what_it_could_only_serve_in_cleartext(tmp_path: Path) -> None:
    said = start(tmp_path, {**Certificates(tmp_path).variables, "FRONT_DOOR": "hypercorn"})
    assert "FRONT_DOOR: serves no TLS" in said


def test_what_a_reload_cannot_change_of_the_listening_is_named(tmp_path: Path) -> None:
    with open_secured(tmp_path) as (stage, _):
        config = json.loads((tmp_path / "config.yaml").read_text(encoding="utf-8"))
        config["server"] = {"http2_port": free_port(), "max_connections": 5, "shutdown_drain_timeout": "1s"}
        (tmp_path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        stage.gateway.hang_up()
        assert stage.gateway.wait_for_log("reloaded")["needs_restart"] == ["shutdown_drain_timeout_s", "http2_port", "connections"]
