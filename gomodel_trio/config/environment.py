"""The variables from everywhere, layered: process environment over `--env-file` over `.env`; blank is unset.

Layer: config. Source: behaviour.md §10. Secrets may stand in files (`<NAME>_FILE`) and values may be references (`${file:/…}`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gomodel_trio.config.expand import ReferenceFault, expand, read_secret_file
from gomodel_trio.config.findings import Findings
from gomodel_trio.config.values import clean, is_wrapped_in_quotes

_FILE = "_FILE"


class Variables:
    """The merged variables. `layers` run from the weakest to the strongest; values that are blank in one do not hide a weaker one."""

    def __init__(self, layers: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        self._values: dict[str, str] = {}
        self._rank: dict[str, int] = {}
        self._labels = [label for label, _ in layers]
        for rank, (_, layer) in enumerate(layers):
            for name, raw in layer.items():
                value = clean(raw)
                if value:
                    self._values[name] = value
                    self._rank[name] = rank

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> str | None:
        """The value, trimmed; None if it is unset or blank."""
        return self._values.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all set variables."""
        return tuple(self._values)

    def place(self, name: str) -> str:
        """The variable's name, with the file it stands in."""
        label = self._labels[self._rank[name]] if name in self._rank else ""
        return f"{name} ({label})" if label else name

    def read_secret_files(self, is_secret: Callable[[str], bool], cwd: Path, findings: Findings) -> None:
        """Set every secret `NAME` from the file that `NAME_FILE` names, unless a stronger layer sets `NAME` itself."""
        for file_name in [name for name in self._values if name.endswith(_FILE)]:
            name = file_name.removesuffix(_FILE)
            if not is_secret(name):
                continue
            rank = self._rank.get(name, -1)
            if rank == self._rank[file_name]:
                findings.fault(name, f"is set, and so is {file_name}: keep one of them")
                continue
            if rank > self._rank[file_name]:
                continue
            try:
                self._values[name] = read_secret_file(cwd / self._values[file_name])
                self._rank[name] = self._rank[file_name]
            except ReferenceFault as error:
                findings.fault(file_name, str(error))

    def follow_references(self, may_refer: Callable[[str], bool], findings: Findings) -> None:
        """Follow `${file:…}` and `${env:…}` in the variables that may hold them; a plain `${VAR}` stays as it is."""
        for name in [name for name, value in self._values.items() if "${" in value and may_refer(name)]:
            try:
                self._values[name] = expand(self._values[name], self.get, plain=False)
            except ReferenceFault as error:
                findings.fault(name, str(error))
                del self._values[name]

    def drop_undecodable(self, is_ours: Callable[[str], bool], findings: Findings) -> None:
        """Forget values that are not UTF-8; one of ours is a fault."""
        for name in [name for name, value in self._values.items() if _has_surrogates(name + value)]:
            del self._values[name]
            if is_ours(name):
                findings.fault(name, "is not valid UTF-8")

    def warn_of_quotes(self, is_secret: Callable[[str], bool], findings: Findings) -> None:
        """Warn of a secret inside quotes that nobody stripped: it would never match."""
        for name, value in self._values.items():
            if is_secret(name) and is_wrapped_in_quotes(value):
                findings.warn(name, "the quotes around it are part of the value (docker --env-file does not strip them)")


def _has_surrogates(text: str) -> bool:
    """Whether the operating system handed over bytes that are no UTF-8."""
    return any("\ud800" <= character <= "\udfff" for character in text)
