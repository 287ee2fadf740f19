"""A base URL that leads back to the gateway itself, by whatever name, is refused before anything is sent."""

import socket
from pathlib import Path

import pytest
import trio

from gomodel_trio.config.local_address import is_this_machine
from gomodel_trio.upstream.own import OwnListeners
from gomodel_trio.upstream.transport import TransportError, TransportFault, UpstreamRequest
from gomodel_trio.upstream.transports import Transports
from support.gateway_process import GatewayProcess, free_port
from support.transports import KINDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("host", "is_own"), [("", True), ("0.0.0.0", True), ("127.0.0.1", True), ("localhost", True), ("127.0.0.9", False)]
)
async def test_a_connection_to_one_of_our_ports_is_refused_where_it_is_ours(kind: str, host: str, is_own: bool) -> None:
    transports, received = Transports({}), bytearray()

    async def serve(stream: trio.SocketStream) -> None:
        received.extend(await stream.receive_some(100))
        if received:
            await stream.send_all(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        port = listeners[0].socket.getsockname()[1]
        transports.own.host, transports.own.ports = host, {1, port}
        transport = transports._httpx(False, None) if kind == "httpx" else transports._make_h1()
        request = UpstreamRequest("POST", f"http://127.0.0.1:{port}/", [], b"{}", 5.0, 5.0)
        if is_own:
            with pytest.raises(TransportError) as caught:
                await transport.send(request)
            assert (caught.value.fault, "leads back" in caught.value.message) == (TransportFault.LOOP, True)
            assert not received
        else:
            response = await transport.send(request)
            assert response.status == 204
            await response.aclose()
        await transport.aclose()
        nursery.cancel_scope.cancel()


def test_a_gateway_whose_proxy_is_itself_says_so_and_asks_itself_once_only(tmp_path: Path) -> None:
    port = free_port()
    variables = {
        "PORT": str(port),
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "http://up.invalid/v1",
        "OPENAI_MODELS": "m",
        "HTTP_PROXY": f"http://127.0.0.1:{port}",
    }
    with GatewayProcess(variables, directory=tmp_path) as gateway:
        answer = gateway.exchange("POST", "/v1/chat/completions", body=b'{"model":"openai/m","messages":[]}')
        assert (answer.status, b"leads back to this gateway" in answer.body) == (502, True)
        gateway.wait_for_log("request")
        assert len(gateway.logged("request")) == 1


def test_another_port_and_a_socket_that_is_gone_are_not_ours() -> None:
    own = OwnListeners()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as connected:
        own.check(connected)
        own.ports = {listening.getsockname()[1] ^ 1}
        own.check(connected)
    own.check(connected)


@pytest.mark.parametrize(("host", "is_ours"), [("127.0.0.1", True), ("localhost", True), ("192.0.2.1", False), ("224.0.0.1", False)])
def test_addresses_of_this_machine_are_known(host: str, is_ours: bool) -> None:
    assert is_this_machine(host) is is_ours
