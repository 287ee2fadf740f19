"""The command line: `gomodel-trio [serve|check-config|explain|version]`.

Layer: the roof. Source: behaviour.md §10. Exit codes: 0 done, 1 failed, 2 the configuration or the call is wrong.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gomodel_trio import __version__
from gomodel_trio.errors import ConfigurationError
from gomodel_trio.wire.dialect import API_BY_PATH, Api

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_APIS: Final = {
    "chat": Api.CHAT,
    "responses": Api.RESPONSES,
    "messages": Api.MESSAGES,
    "count_tokens": Api.COUNT_TOKENS,
    "embeddings": Api.EMBEDDINGS,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or (given[0].startswith("-") and given[0] not in ("-h", "--help", "--version")):
        given.insert(0, "serve")
    options = _parser().parse_args(given)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except ConfigurationError as error:
        return _refuse(error)


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

    from gomodel_trio.config.load import require_provider
    from gomodel_trio.service.logging import open_log
    from gomodel_trio.service.run import Service, announce

    settings = _settings(options)
    require_provider(settings)
    log = open_log(settings.log, dict(os.environ))
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
        return_code = _refuse(ConfigurationError(faults))
    except* KeyboardInterrupt:
        return_code = EXIT_FAILED
    else:
        return_code = EXIT_OK
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

    api = _APIS.get(options.api) or API_BY_PATH.get("/" + options.api.partition("?")[0].strip("/"))
    if api is None:
        _print_error(f"--api: {options.api!r} is no endpoint; use one of {', '.join(_APIS)}")
        return EXIT_USAGE
    headers = []
    for line in options.header:
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            _print_error(f"--header: {line!r} is no header; write 'NAME: VALUE'")
            return EXIT_USAGE
        headers.append((name.strip().lower().encode(), value.strip().encode()))
    explained = explain(_settings(options), api, headers, sys.stdin.buffer.read())
    _print(msgspec.json.format(msgspec.json.encode(explained), indent=2).decode())
    return EXIT_FAILED if "error" in explained else EXIT_OK


def _version(_options: argparse.Namespace) -> int:
    _print(f"gomodel-trio {__version__}")
    return EXIT_OK


def _settings(options: argparse.Namespace) -> Any:
    from gomodel_trio.config.load import load_settings

    return load_settings(os.environ, config_file=options.config, env_file=options.env_file, cwd=Path.cwd(), demo=options.demo)


def _refuse(error: ConfigurationError) -> int:
    _print_error("The configuration is wrong:")
    for fault in error.faults:
        _print_error(f"  {fault}")
    return EXIT_USAGE


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_error(line: str) -> None:
    sys.stderr.write(line + "\n")
