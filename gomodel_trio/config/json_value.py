"""JSON in a variable, and why it may have arrived broken: what units, `--env-file`, compose files and shells do to quotes.

Layer: config. Source: behaviour.md §3, §10. A message names the variable, the position, the likely cause and the way to write it.
"""

import json
import re

from gomodel_trio.config.findings import Findings, shown
from gomodel_trio.config.located import Located, Origin, VariableOrigin

_SMART_QUOTES = re.compile("[“”„‟«»‘’‚‹›＂]")
_BARE_KEY = re.compile(r"[{,]\s*[A-Za-z_][\w./-]*\s*:")
_SINGLE_QUOTED_KEY = re.compile(r"[{,\[]\s*'")
_REMEDY = (
    "write it so: systemd unit Environment='{name}={{\"a\":…}}'; systemd EnvironmentFile {name}='{{\"a\":…}}'; "
    'docker --env-file {name}={{"a":…}} with no quotes around it; compose {name}: \'{{"a":…}}\'; shell export {name}=\'{{"a":…}}\''
)


def parse_json_variable(name: str, text: str, findings: Findings, *, origin: Origin | None = None) -> Located | None:
    """Parse the JSON in variable `name`; None if it is blank, or after a fault. A key that stands twice in one object is a fault.

    With an `origin` the text is a string of a YAML file at the path `name`, where no tool has touched its quotes.
    """
    place = origin.place(name) if origin is not None else name
    cleaned = text.strip().strip("\ufeff").strip()
    if not cleaned:
        return None
    repeated: list[str] = []

    def collect(pairs: list[tuple[str, object]]) -> dict[str, object]:
        out: dict[str, object] = {}
        for key, value in pairs:
            if key in out:
                repeated.append(key)
            out[key] = value
        return out

    try:
        value = json.loads(cleaned, object_pairs_hook=collect)
    except json.JSONDecodeError as error:
        findings.fault(place, _explain(name, cleaned, error) if origin is None else _position(cleaned, error))
        return None
    except (RecursionError, ValueError):
        findings.fault(place, "is no usable JSON: nested too deeply, or a number of too many digits")
        return None
    for key in dict.fromkeys(repeated):
        findings.fault(place, f"the key {shown(key)} stands twice in one object")
    if isinstance(value, str):
        findings.fault(place, _wrapped(name, value))
        return None
    return Located(value, name, origin or VariableOrigin())


def quoting_cause(text: str) -> str | None:
    """Tell what happened to the quotes of a JSON text that does not parse; None if nothing points to them."""
    if _SMART_QUOTES.search(text):
        return "it holds typographic quotes (a word processor's); JSON takes only the plain double quote"
    if text[0] == "'":
        return "the single quotes around it arrived as part of the value: this file format does not strip them"
    if text[0] == '"' and text[1:2] in ("{", "[", "\\"):
        return "the double quotes around it arrived as part of the value: this file format does not strip them"
    if '\\"' in text:
        return "its quotes arrived escaped, with the backslashes as part of the value"
    if '""' in text and re.search(r'""[^",:}\]\s]', text):
        return "its quotes arrived doubled"
    if '"' not in text and _BARE_KEY.search(text):
        return "its double quotes were swallowed on the way (a shell or a unit file took them for its own)"
    if '"' not in text and "'" not in text and re.fullmatch(r"[\[{][^\"]*", text) and re.search(r"\w", text):
        return "its double quotes were swallowed on the way (a shell or a unit file took them for its own)"
    if _SINGLE_QUOTED_KEY.search(text):
        return "its strings are in single quotes; JSON takes double quotes inside and single quotes only around the whole value"
    if _BARE_KEY.search(text):
        return "some of its double quotes were swallowed on the way (a shell or a unit file took them for its own)"
    return None


def _explain(name: str, text: str, error: json.JSONDecodeError) -> str:
    """Compose the message for a text that is no JSON."""
    message = _position(text, error)
    if error.msg == "Extra data" and text[error.pos :].startswith("#"):
        return f"{message}; what follows the JSON is taken for a part of it: put the comment on a line of its own"
    cause = quoting_cause(text)
    if cause is not None:
        return f"{message}; quotes: {cause}; {_REMEDY.format(name=name)}"
    missing = _missing_end(text)
    if not missing:
        return message
    cause = f"it ends too early: a `{missing}` is missing, or the value was cut (systemd cuts an unquoted one at the first space or quote)"
    return f"{message}; {cause}; {_REMEDY.format(name=name)}"


def _position(text: str, error: json.JSONDecodeError) -> str:
    """Where the text stops being JSON, and what was expected there."""
    position = f"line {error.lineno}, column {error.colno} (character {error.pos + 1})"
    return f"is no valid JSON at {position}, near {_near(text, error.pos)}: {error.msg.lower()}"


def _wrapped(name: str, value: str) -> str:
    """Compose the message for JSON that is one string; mostly the wanted JSON inside quotes that nobody stripped."""
    if value.lstrip()[:1] in ("{", "["):
        cause = "the double quotes around it arrived as part of the value and its own arrived escaped"
        return f"is a string at line 1, column 1 (character 1), not a list or an object; quotes: {cause}; {_REMEDY.format(name=name)}"
    return "must be a JSON list or object, not a string, at line 1, column 1 (character 1)"


def _near(text: str, position: int) -> str:
    """A few characters around the position, as they stand."""
    piece = text[max(0, position - 12) : position + 12]
    return "«" + "".join(character if character.isprintable() else "␣" for character in piece) + "»"


def _missing_end(text: str) -> str:
    """What would close the string, object or list that the text ends in; empty if it ends in none."""
    open_ends: list[str] = []
    is_string = False
    characters = iter(text)
    for character in characters:
        if is_string:
            if character == "\\":
                next(characters, None)
            is_string = character != '"'
        elif character == '"':
            is_string = True
        elif character in "{[":
            open_ends.append("}" if character == "{" else "]")
        elif open_ends and character == open_ends[-1]:
            open_ends.pop()
    if not open_ends:
        return ""
    return '"' if is_string else open_ends[-1]
