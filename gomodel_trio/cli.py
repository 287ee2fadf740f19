"""The command line: `gomodel-trio [serve|check-config|explain|version]`.

Layer: the roof. Source: behaviour.md §10. Exit codes: 0 done (a gateway told to stop, too), 1 failed (also where the output could not be
written), 2 the configuration or the call is wrong. What takes long to import is imported by the commands, after signals are taken care of.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from gomodel_trio import __version__
from gomodel_trio.service.descriptors import fill_standard_streams
from gomodel_trio.service.early_signals import EARLY

if TYPE_CHECKING:
    from gomodel_trio.errors import ConfigurationError
    from gomodel_trio.wire.dialect import Api

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_COMMANDS: Final = frozenset({"serve", "check-config", "explain", "version"})
_APIS: Final = ("chat", "responses", "messages", "count_tokens", "embeddings")


class _OutputLost(Exception):
    """Nobody takes what the command has to say."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code. Without `arguments` it runs as the process: signals and standard streams are its business then."""
    given = _command_first(list(sys.argv[1:] if arguments is None else arguments))
    if arguments is None:
        _take_process(is_serving=given[0] == "serve")
    try:
        return _settle_output(_run(given))
    except _OutputLost:
        return _settle_output(EXIT_FAILED)
    except SystemExit as ended:  # argparse's
        raise SystemExit(_settle_output(ended.code if isinstance(ended.code, int) else EXIT_FAILED)) from None


def _command_first(given: list[str]) -> list[str]:
    """The arguments with the command in front, `serve` if there is none; the options that all commands share may come before it."""
    at = 0
    while at < len(given) and given[at].startswith("-") and given[at] not in ("-h", "--help", "--version"):
        at += 2 if given[at] in ("--config", "--env-file") else 1
    if at < len(given) and given[at] in ("--version", "-h", "--help"):
        return given if at == 0 else ["serve", *given]
    if at < len(given) and (given[at] in _COMMANDS or at == 0):
        return [given[at], *given[:at], *given[at + 1 :]]
    return ["serve", *given]


def _run(given: list[str]) -> int:
    options = _parser().parse_args(given)
    command: Callable[[argparse.Namespace], int] = options.command
    from gomodel_trio.errors import ConfigurationError

    try:
        return command(options)
    except ConfigurationError as error:
        return _refuse(error)


def _take_process(*, is_serving: bool) -> None:
    """Be a process that ends without a traceback and prints whatever it has to, in any locale."""
    if is_serving:
        EARLY.install()
    else:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    fill_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gomodel-trio",
        description="An AI gateway that sends every request to the right model at the right provider.",
        epilog="Without a command it serves. Exit codes: 0 done, 1 failed, 2 the configuration or the call is wrong.",
    )
    parser.add_argument("--version", action="version", version=f"gomodel-trio {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    serve = _add(commands, "serve", _serve, "run the gateway")
    serve.add_argument("--demo", action="store_true", help="serve the alias `normal` on the built-in echo provider: no keys, no network")
    _add(commands, "check-config", _check_config, "check the configuration, all faults at once, and tell what it means").add_argument(
        "--demo", action="store_true", help=argparse.SUPPRESS
    )
    explain = _add(commands, "explain", _explain, "tell what would be done with a request read from stdin; nothing is called")
    explain.add_argument("--api", default="chat", help=f"the endpoint: {', '.join(_APIS)}, or its path (default: chat)")
    explain.add_argument("--header", "-H", action="append", default=[], metavar="'NAME: VALUE'", help="a header of the request; repeatable")
    explain.add_argument("--demo", action="store_true", help="explain with the configuration of `serve --demo`")
    commands.add_parser("version", help="print the version").set_defaults(command=_version)
    return parser


def _add(commands: Any, name: str, command: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.add_argument("--config", type=Path, metavar="FILE", help="the YAML file (default: config/config.yaml, config.yaml)")
    parser.add_argument("--env-file", type=Path, metavar="FILE", help="a file of variables, after the environment and before .env")
    parser.set_defaults(command=command)
    return parser


# ---- serve ----------------------------------------------------------------------------------------------------------


def _serve(options: argparse.Namespace) -> int:
    import trio

    from gomodel_trio.config.confidential import confidential_texts
    from gomodel_trio.config.load import require_provider
    from gomodel_trio.errors import AddressUnavailable, ConfigurationError
    from gomodel_trio.service.logging import open_log
    from gomodel_trio.service.run import Service, announce

    settings = _settings(options)
    require_provider(settings)
    log = open_log(settings.log, dict(os.environ))
    log.keep_secret(confidential_texts(settings, os.environ))
    announce(settings, log)

    def load() -> Any:
        fresh = _settings(options)
        require_provider(fresh)
        return fresh

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            port = await nursery.start(Service(settings, log, load=load).run)
            if options.demo:
                _say_hello(settings.server.host, port)

    try:
        trio.run(serve, strict_exception_groups=True)
    except* ConfigurationError as group:
        faults = [fault for error in _leaves(group) if isinstance(error, ConfigurationError) for fault in error.faults]
        is_address = all(isinstance(error, AddressUnavailable) for error in _leaves(group))
        return_code = _refuse((AddressUnavailable if is_address else ConfigurationError)(faults))
    except* KeyboardInterrupt:
        return_code = EXIT_FAILED
    else:
        return_code = EXIT_OK
    finally:
        log.close()
    return return_code


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [leaf for error in group.exceptions for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])]


def _say_hello(host: str, port: int) -> None:
    url = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::', '') else host}:{port}"
    _print_error(f"""
The gateway runs on the built-in echo provider: no keys, no network. Try it:

  curl -si {url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model":"normal","messages":[{{"role":"user","content":"hi"}}]}}'

The decision is in the answer's headers X-GoModel-Pro-Tier, …-Score and …-Reason, and in the log line.
Write "think hard: what is the root cause?" in the place of "hi" and it goes to the other tier. Why, signal by signal:

  echo '{{"model":"normal","messages":[{{"role":"user","content":"think hard"}}]}}' | {_called_as()} explain --demo
""")


def _called_as() -> str:
    called = Path(sys.argv[0])
    return str(called) if called.name.startswith("gomodel") else f"{sys.executable} -m gomodel_trio"


# ---- the others -----------------------------------------------------------------------------------------------------


def _check_config(options: argparse.Namespace) -> int:
    from gomodel_trio.config.describe import describe
    from gomodel_trio.config.load import require_provider

    settings = _settings(options)
    for warning in settings.warnings:
        _print_error(f"warning: {warning}")
    require_provider(settings)
    for line in describe(settings):
        _print(line)
    _print("The configuration is good.")
    return EXIT_OK


def _explain(options: argparse.Namespace) -> int:
    from gomodel_trio.replay.explain import explain

    api = _api(options.api)
    if api is None:
        _print_error(f"--api: {options.api!r} is no endpoint; use one of {', '.join(_APIS)}")
        return EXIT_USAGE
    headers = []
    for line in options.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            _print_error(f"--header: {line!r} is no header; write 'NAME: VALUE'")
            return EXIT_USAGE
        headers.append((os.fsencode(name.strip().lower()), os.fsencode(value.strip())))  # the bytes that were typed
    body = sys.stdin.buffer.read() if sys.stdin is not None else b""
    _print_json(explained := explain(_settings(options), api, headers, body))
    return EXIT_FAILED if "error" in explained else EXIT_OK


def _api(name: str) -> "Api | None":
    from gomodel_trio.wire.dialect import API_BY_PATH, Api

    return Api[name.upper()] if name in _APIS else API_BY_PATH.get("/" + name.partition("?")[0].strip("/"))


def _version(_options: argparse.Namespace) -> int:
    _print(f"gomodel-trio {__version__}")
    return EXIT_OK


def _settings(options: argparse.Namespace) -> Any:
    from gomodel_trio.config.load import load_settings

    return load_settings(_environment(), config_file=options.config, env_file=options.env_file, cwd=Path.cwd(), demo=options.demo)


def _environment() -> dict[str, str]:
    """The process's variables as UTF-8, whatever the locale: it is what they are written in."""
    return {_utf8(name): _utf8(value) for name, value in os.environ.items()}


def _utf8(text: str) -> str:
    return text if text.isascii() else os.fsencode(text).decode("utf-8", "surrogateescape")


def _refuse(error: "ConfigurationError") -> int:
    from gomodel_trio.errors import AddressUnavailable

    _print_error("The gateway cannot start:" if isinstance(error, AddressUnavailable) else "The configuration is wrong:")
    for fault in error.faults:
        _print_error(f"  {fault}")
    return EXIT_USAGE


# ---- output ---------------------------------------------------------------------------------------------------------


def _print(line: str) -> None:
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(line + "\n")
    except OSError:
        raise _OutputLost from None


def _print_json(value: Any) -> None:
    import msgspec

    plain = msgspec.to_builtins(value)
    is_unicode = sys.stdout is None or sys.stdout.encoding.lower().replace("-", "") == "utf8"
    _print(json.dumps(plain, indent=2, ensure_ascii=not is_unicode))


def _print_error(line: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(line + "\n")


def _settle_output(code: int) -> int:
    """Write what is buffered, and leave nothing that could fail at the interpreter's end; the exit code."""
    if not _flush(sys.stdout, 1):
        code = EXIT_FAILED
    _flush(sys.stderr, 2)
    return code


def _flush(stream: TextIO | None, descriptor: int) -> bool:
    try:
        if stream is not None:
            stream.flush()
    except OSError:
        with contextlib.suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
        return False
    return True
