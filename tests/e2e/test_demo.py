"""What a newcomer does first: start the demonstration and run what it prints; and what the README promises of it."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest

from support.gateway_process import GatewayProcess, environment, run_command
from support.raw_http import Answer, Head, exchange, parse_head
from support.shared_cases import PROJECT

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(directory=tmp_path_factory.mktemp("demo"), arguments=["--demo"]) as gateway:
        gateway.wait_until(lambda: any("explain --demo" in line for line in gateway.stderr))
        yield gateway


def commands_in(text: str) -> list[str]:
    """The shell commands in a text: lines that begin with one, with their continuations."""
    joined = re.sub(r"\\\n\s*", "", text)
    return [line.strip() for line in joined.splitlines() if line.strip().startswith(("curl ", "echo "))]


def asked_by(curl: str, port: int) -> Answer:
    """Send what a curl command line says, to the port whatever its own is."""
    words = shlex.split(curl)
    (url,) = [word for word in words if "/v1/" in word]
    name, _, value = words[words.index("-H") + 1].partition(": ")
    return exchange(port, "POST", url[url.index("/v1/") :], headers={name: value}, body=words[words.index("-d") + 1].encode())


def decision_of(head: Head) -> dict[str, str]:
    return {name.lower(): value for name, value in head.headers if name.lower().startswith("x-gomodel-")}


def test_the_printed_request_works_as_printed(demo: GatewayProcess) -> None:
    curl, _ = commands_in("\n".join(demo.stderr))
    assert f"http://127.0.0.1:{demo.port}/v1/chat/completions" in curl
    answer = asked_by(curl, demo.port)
    assert (answer.status, answer.get("x-gomodel-pro-tier"), answer.get("x-gomodel-pro-tier-reason")) == (200, "easy", "score")
    assert answer.json()["choices"][0]["message"]["content"] == "echo: hi"
    harder = asked_by(curl.replace('"hi"', '"think hard: what is the root cause?"'), demo.port)
    assert "think hard: what is the root cause?" in "\n".join(demo.stderr)
    assert harder.get("x-gomodel-pro-tier") == "hard"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_printed_request_can_be_pasted_into_a_shell(demo: GatewayProcess) -> None:
    curl, _ = commands_in("\n".join(demo.stderr))
    run = subprocess.run(["/bin/sh", "-c", curl], capture_output=True, timeout=20, check=True)
    head, _, body = run.stdout.partition(b"\r\n\r\n")
    assert decision_of(parse_head(head))["x-gomodel-pro-tier"] == "easy"
    assert json.loads(body)["object"] == "chat.completion"


def test_the_printed_explanation_can_be_pasted_into_a_shell(demo: GatewayProcess, tmp_path: Path) -> None:
    _, explain = commands_in("\n".join(demo.stderr))
    run = subprocess.run(
        ["/bin/sh", "-c", explain], capture_output=True, env=environment({}, tmp_path), cwd=tmp_path, timeout=20, check=True
    )
    told = json.loads(run.stdout)
    assert (told["tier"]["alias"], told["tier"]["tier"], told["score"]["score"]) == ("normal", "hard", 4)


def test_the_first_request_of_the_readme_gets_the_headers_it_shows(demo: GatewayProcess) -> None:
    section = (PROJECT / "README.md").read_text(encoding="utf-8").split("## Try it")[1].split("\n## ")[0]
    blocks = re.findall(r"```(?:bash)?\n(.*?)```", section, re.DOTALL)
    (curl,) = commands_in(blocks[0])
    shown = dict(line.split(": ", 1) for line in blocks[1].strip().splitlines())
    answer = asked_by(curl, demo.port)
    assert decision_of(answer) == shown
    harder = asked_by(curl.replace('"hi"', '"think hard about the root cause"'), demo.port)
    assert (harder.get("x-gomodel-pro-tier"), harder.get("x-gomodel-pro-tier-score")) == ("hard", "4")
    assert "the score is 4, the tier `hard`" in section


def test_the_demonstration_speaks_both_dialects_and_streams(demo: GatewayProcess) -> None:
    turn = {"model": "normal", "messages": [{"role": "user", "content": "hello there"}], "max_tokens": 9}
    message = demo.exchange("POST", "/v1/messages", body=turn)
    assert message.json()["content"] == [{"type": "text", "text": "echo: hello there"}]
    stream = demo.exchange("POST", "/v1/responses", body={"model": "normal", "input": "hello there", "stream": True})
    assert (stream.is_complete, stream.get("content-type")) == (True, "text/event-stream; charset=utf-8")
    assert "response.completed" in stream.text


def test_the_official_sdks_understand_the_demonstration(demo: GatewayProcess) -> None:
    turn = {"role": "user", "content": "hello there"}
    with openai.OpenAI(api_key="any", base_url=f"{demo.url}/v1", max_retries=0) as client:
        assert client.chat.completions.create(model="normal", messages=[turn]).choices[0].message.content == "echo: hello there"
        with client.chat.completions.stream(model="normal", messages=[turn]) as stream:
            assert stream.get_final_completion().choices[0].message.content == "echo: hello there"
        assert client.responses.create(model="normal", input="hello there").output_text == "echo: hello there"
        with client.responses.stream(model="normal", input=[turn]) as events:
            assert events.get_final_response().output_text == "echo: hello there"
        assert [len(row.embedding) for row in client.embeddings.create(model="normal", input=["a", "b"]).data] == [8, 8]
        assert "normal" in [model.id for model in client.models.list()]
    with anthropic.Anthropic(api_key="any", base_url=demo.url, max_retries=0) as client:
        assert client.messages.create(model="normal", max_tokens=9, messages=[turn]).content[0].text == "echo: hello there"
        with client.messages.stream(model="normal", max_tokens=9, messages=[turn]) as stream:
            assert stream.get_final_text() == "echo: hello there"
        assert client.messages.count_tokens(model="normal", messages=[turn]).input_tokens > 0
        assert "normal" in [model.id for model in client.models.list()]


def test_an_operators_own_alias_keeps_its_meaning_in_the_demonstration(tmp_path: Path) -> None:
    routes = '{"normal":{"easy":"echo/echo-large","hard":"echo/echo-large"}}'
    run = run_command(
        "explain", "--demo", directory=tmp_path, variables={"PRO_SMART_ROUTING_ROUTES": routes}, stdin='{"model":"normal","messages":[]}'
    )
    assert json.loads(run.stdout)["resolution"]["target"] == "echo/echo-large"
