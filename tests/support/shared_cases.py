"""Finds the case files that are shared between implementations, where there are any: an extra beside the vectors in `spec/`.

They are looked for in `$GOMODEL_TRIO_SHARED`, else in the folder `shared` beside the project; without them their tests are skipped.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
SPEC = PROJECT / "spec"
VECTORS = SPEC / "vectors"


def cases_folder() -> Path | None:
    """The folder of cases, None if there is none."""
    root = Path(os.environ.get("GOMODEL_TRIO_SHARED") or PROJECT.parent / "shared")
    folder = root / "cases"
    return folder if folder.is_dir() else None


needs_shared_cases = pytest.mark.skipif(cases_folder() is None, reason="no shared cases: set GOMODEL_TRIO_SHARED")


def load_json(name: str) -> Any:
    """The content of a case file, e.g. `sessions.json`; None where there are no cases (the tests are skipped then)."""
    folder = cases_folder()
    return None if folder is None else json.loads((folder / name).read_text(encoding="utf-8"))


def load_json_lines(name: str) -> list[Any]:
    """The lines of a case file, e.g. `scoring/easy.jsonl`; none where there are no cases."""
    folder = cases_folder()
    if folder is None:
        return []
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def files(pattern: str) -> Iterator[tuple[str, Any]]:
    """The files that match, e.g. `upstream-errors/*/*.json`, as (path under the cases, content), sorted; none where there are no cases."""
    folder = cases_folder()
    for path in sorted(folder.glob(pattern)) if folder is not None else ():
        yield path.relative_to(folder or path).as_posix(), json.loads(path.read_text(encoding="utf-8"))


def vector(name: str) -> Any:
    """The content of one of the project's own vectors, e.g. `retry_after.json`."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))
