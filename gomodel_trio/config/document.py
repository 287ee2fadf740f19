"""The documentation of every variable, generated from the catalogue: `spec/env.md` and the table in the README.

Layer: config. Run by `scripts/generate_docs`; `--check` only compares.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gomodel_trio.config.catalogue import FAMILIES, VARIABLES, Family, Variable
from gomodel_trio.config.foreign import FOREIGN_VARIABLES, LATER_PREFIXES, LATER_VARIABLES
from gomodel_trio.config.provider_types import PROVIDER_TYPES, KeyHeader

BEGIN, END = "<!-- variables -->", "<!-- /variables -->"
_ENV_MD = Path("spec/env.md")
_README = Path("README.md")
_INTRODUCTION = """# Configuration

Generated from `gomodel_trio/config/catalogue.py` by `scripts/generate_docs`; do not edit.

Environment over `--env-file` over `.env` over `config/config.yaml` or `config.yaml` over defaults. A blank variable is unset.
Durations are `250ms`, `30s`, `5m`, `1h30m` or a number of seconds; sizes are bytes or `512K`, `10M`; switches are `true`, `false`,
`1`, `0`, `yes`, `no`, `on`, `off`. Unknown YAML keys stop the start; variables and YAML sections of GoModel's that this version lacks
are named in a warning and ignored. Every fault is reported at once, with its place.
"""
_REFERENCES = """
## References

In YAML values `${VAR}`, `${VAR:-default}`, `${env:VAR}` and `${file:/absolute/path}` are replaced; `$${` is a literal `${`. In
variables, those with JSON excepted, only `${env:VAR}` and `${file:…}` are. What a reference brings in is not searched again. A `${VAR}`
that is not set and has no default is a fault; under `providers:` it counts as not given, with a warning, so that one file can serve
places with different credentials. A missing file is always a fault. In `.env` files `$` is an ordinary character.

## JSON in variables

| Where | How to write it |
|---|---|
| systemd unit | `Environment='PRO_SMART_ROUTING_ROUTES={"normal":{"easy":"a","hard":"b"}}'` |
| systemd `EnvironmentFile=` | `PRO_SMART_ROUTING_ROUTES='{"normal":{"easy":"a","hard":"b"}}'` |
| `docker run --env-file` | `PRO_SMART_ROUTING_ROUTES={"normal":{"easy":"a","hard":"b"}}` |
| compose `environment:` | `PRO_SMART_ROUTING_ROUTES: '{"normal":{"easy":"a","hard":"b"}}'` |
| shell | `export PRO_SMART_ROUTING_ROUTES='{"normal":{"easy":"a","hard":"b"}}'` |
| `.env` | any of the above |
"""


def render_env_md() -> str:
    """The whole of `spec/env.md`."""
    parts = [_INTRODUCTION]
    for section, rows in _sections().items():
        parts.append(f"\n## {section}\n\n{_table(rows)}")
    parts += ["\n## Provider types\n\n", _provider_table(), _REFERENCES, _foreign()]
    return "".join(parts)


def render_readme_table() -> str:
    """The README's table: name, default, meaning."""
    lines = ["| Variable | Default | Meaning |", "|---|---|---|"]
    lines += [f"| `{_name(row)}` | {_code(row.default)} | {_cell(row.help)} |" for rows in _sections().values() for row in rows]
    return "\n".join(lines) + "\n"


def insert_between_markers(text: str, table: str) -> str | None:
    """Put the table between the README's markers; None if it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return None
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def generate(root: Path, *, check: bool, say: Callable[[str], None], pages: Mapping[Path, str] | None = None) -> int:
    """Write what is not current under `root`, or with `check` only name it; returns the exit code.

    `pages` are further generated files, of other layers, by their path under `root`.
    """
    wanted = {_ENV_MD: render_env_md(), **(pages or {})}
    readme = root / _README
    if readme.is_file():
        filled = insert_between_markers(readme.read_text(encoding="utf-8"), render_readme_table())
        if filled is None:
            say(f"{_README}: has no {BEGIN} and {END}; its table is left out")
        else:
            wanted[_README] = filled
    stale = 0
    for path, content in wanted.items():
        target = root / path
        if target.is_file() and target.read_text(encoding="utf-8") == content:
            continue
        stale += 1
        say(f"{path}: {'is not current' if check else 'written'}")
        if not check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")
    return 1 if check and stale else 0


def _sections() -> dict[str, list[Variable | Family]]:
    """The rows by section, in the catalogue's order, families behind the others of their section."""
    sections: dict[str, list[Variable | Family]] = {}
    rows: list[Variable | Family] = [*VARIABLES.values(), *FAMILIES]
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    return sections


def _table(rows: Iterable[Variable | Family]) -> str:
    lines = ["| Variable | Type | Default | Range | YAML | Meaning |", "|---|---|---|---|---|---|"]
    for row in rows:
        bounds = row.range_text if isinstance(row, Variable) else ""
        cells = [f"`{_name(row)}`", row.kind.value, _code(row.default), bounds, _code(row.yaml), _cell(row.help)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _provider_table() -> str:
    lines = ["| Type | Dialect | Usual base URL | Key | Header |", "|---|---|---|---|---|"]
    for row in PROVIDER_TYPES.values():
        if row.is_in_this_version:
            key = "none" if row.key_header is KeyHeader.NONE else "required" if row.is_key_required else "optional"
            base_url = "built in" if row.key_header is KeyHeader.NONE else _code(row.base_url) or "required"
            lines.append(f"| `{row.name}` | {row.dialect.value} | {base_url} | {key} | {_code(row.key_header.value or None)} |")
    missing = ", ".join(f"`{row.name}`" for row in PROVIDER_TYPES.values() if not row.is_in_this_version)
    note = f"\nKnown, but not in this version: {missing}. Such a provider warns, and its targets are unavailable.\n"
    return "\n".join(lines) + "\n" + note


def _foreign() -> str:
    later = ", ".join(f"`{name}`" for name in (*sorted(LATER_VARIABLES), *(f"{prefix}*" for prefix in LATER_PREFIXES)))
    others = ", ".join(f"`{name}`" for name in sorted(FOREIGN_VARIABLES))
    return (
        f"\n## Not in this version\n\nFor a later version: {later}.\n\nGoModel's, known and ignored with a warning: {others}.\n\n"
        "`GOMODEL_PRO_LICENSE` is ignored: there is no licence. `PROMETHEUS_MULTIPROC_DIR` is ignored: the gateway is one process.\n"
    )


def _name(row: Variable | Family) -> str:
    return row.name if isinstance(row, Variable) else row.pattern


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
