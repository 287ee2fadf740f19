"""The command line: `gomodel-trio [serve|check-config|explain|models|simulate|version]`.

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

_COMMANDS: Final = frozenset({"serve", "check-config", "explain", "models", "simulate", "version"})
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
    if sys.stderr is None:  # argparse of Python before 3.11.3 writes to it unasked
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process
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
    explain.add_argument("--url", help="ask the gateway that runs there (http://127.0.0.1:8080), as things stand, not this configuration")
    key_help = "the variable that holds the gateway's master key, in the environment, --env-file or .env (default: GOMODEL_MASTER_KEY)"
    explain.add_argument("--key-env", default="GOMODEL_MASTER_KEY", metavar="NAME", help=key_help)
    models = _add(commands, "models", _models, "list the models that the configuration knows, with prices and who uses them")
    models.add_argument("--json", action="store_true", help="as JSON, for programs")
    models.add_argument("--demo", action="store_true", help=argparse.SUPPRESS)
    _add_simulate(commands)
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
    from gomodel_trio.wire.dialect import named_api

    api = named_api(options.api)
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
    if options.url is not None:
        return _explain_at(options, api, headers, body)
    from gomodel_trio.replay.documents import Refused
    from gomodel_trio.replay.explain import explain

    _print_json(explained := explain(_settings(options), api, headers, body))
    return EXIT_FAILED if isinstance(explained, Refused) else EXIT_OK


def _explain_at(options: argparse.Namespace, api: "Api", headers: list[tuple[bytes, bytes]], body: bytes) -> int:
    from gomodel_trio.replay.remote import NotExplained, WrongUrl, explain_at

    key = _key(options)
    try:
        explained = explain_at(options.url, api, headers, body, key=key)
    except WrongUrl as error:
        _print_error(f"--url: {error}")
        return EXIT_USAGE
    except NotExplained as error:
        _print_error(str(error))
        if key is None:
            _print_error(f"No key was sent: {options.key_env} is not set.")
        return EXIT_FAILED
    _print_json(explained)
    return EXIT_FAILED if "error" in explained else EXIT_OK


def _key(options: argparse.Namespace) -> str | None:
    """The key of a running gateway; what else is wrong with the variables here is no matter there."""
    from gomodel_trio.config.findings import Findings
    from gomodel_trio.config.reader import read_variables
    from gomodel_trio.errors import ConfigurationError

    findings = Findings()
    variables = read_variables(_environment(), options.env_file, Path.cwd(), findings)
    places = (options.key_env, *([str(options.env_file)] if options.env_file is not None else []))
    faults = [fault for fault in findings.faults if fault.place.startswith(places)]
    if faults:
        raise ConfigurationError(faults)
    return variables.get(options.key_env)


def _models(options: argparse.Namespace) -> int:
    from gomodel_trio.config.models_table import list_models, table_lines

    rows = list_models(_settings(options))
    if options.json:
        _print_json(rows)
    else:
        for line in table_lines(rows):
            _print(line)
    return EXIT_OK


def _add_simulate(commands: Any) -> None:
    summary = "play a scenario file through the routing code in virtual time; nothing is called"
    parser = commands.add_parser("simulate", help=summary, description=summary)
    parser.add_argument("scenario", type=Path, metavar="FILE", help="the scenario, such as spec/scenarios/slow-target.yaml")
    parser.add_argument("--seed", type=_seed, metavar="N", help="another seed than the scenario's; equal seeds give equal output")
    parser.add_argument(
        "--strategy", nargs="+", action="extend", default=[], metavar="NAME", help="only these; default: those of the scenario, else all"
    )
    parser.add_argument("--html", type=Path, metavar="OUT", help="write a self-contained page with plots, too")
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON in the place of the table")
    parser.set_defaults(command=_simulate)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: write a whole number from 0 on")
    return int(text)


def _simulate(options: argparse.Namespace) -> int:
    from gomodel_trio.errors import ConfigurationError
    from gomodel_trio.replay.simulate.page import page_of
    from gomodel_trio.replay.simulate.report import simulate
    from gomodel_trio.replay.simulate.scenario import StrategyName
    from gomodel_trio.replay.simulate.scenario_file import read_scenario
    from gomodel_trio.replay.simulate.table import table_of

    known = [strategy.value for strategy in StrategyName]
    unknown = [name for name in options.strategy if name not in known]
    if unknown:
        _print_error(f"--strategy: {', '.join(unknown)} is none; use {', '.join(known)}")
        return EXIT_USAGE
    try:
        scenario = read_scenario(options.scenario)
    except ConfigurationError as error:
        return _refuse(error, "The scenario is wrong:")
    report = simulate(scenario, seed=options.seed, strategies=[StrategyName(name) for name in dict.fromkeys(options.strategy)])
    if options.html is not None:
        try:
            options.html.write_text(page_of(report), encoding="utf-8", newline="\n")
        except OSError as error:
            _print_error(f"--html: {options.html}: {error.strerror}")
            return EXIT_FAILED
    if options.json:
        _print_json(report)
    else:
        for line in table_of(report):
            _print(line)
    return EXIT_OK


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


def _refuse(error: "ConfigurationError", head: str = "The configuration is wrong:") -> int:
    from gomodel_trio.errors import AddressUnavailable

    _print_error("The gateway cannot start:" if isinstance(error, AddressUnavailable) else head)
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
