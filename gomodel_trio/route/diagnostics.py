"""Recognise fenced code, diffs and the stack traces of the common runtimes.

Layer: route. Source: behaviour.md §3, row "code or diagnostics"; the formats are those the runtimes print: CPython, Go, the JVM, V8,
SpiderMonkey, .NET and Mono, Rust, Ruby, PHP, Lua, Perl, gdb and lldb, the sanitizers, Valgrind.

Linear: one pass of `_LINE_START` looks at how each line begins; a candidate is confirmed on its own line (a frame without a file also on
the next). Three marks that stand inside of lines are sought with `in` first. No pattern can try one stretch of text twice over.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

_SEPARATOR: Final = "\n\0\n"
"""Between texts: each begins a line, and no trace runs from one into the next."""

_LINE_START: Final = re.compile(
    # Most lines end here: a look at one character costs a fifth of trying the alternatives. Each of those is named behind its text, not
    # around it, since one that starts with a letter is passed over quicker than one that starts with a group.
    r"\n(?=[ \t>`~a#F*fECUsPdpg=WST\[-])(?:"
    r"[ \t>]*+(?=[`a#F*fECUsP-])(?:"
    r"```(?P<fence>)"
    r"|at (?P<at>)"
    r"|#(?=\d)(?P<number>)"
    r"|# {1,4}SIG[A-Z]++ \(0x[0-9a-f]++\) at pc=(?P<jvm>)"
    r"|File \"(?P<file>)"
    r"|frame #\d++: 0x(?P<frame>)"
    r"|\* ?frame #\d++: 0x(?P<starred>)"
    r"|Exception in thread \"[^\"\n]*+\" [\w$](?P<java>)"
    r"|Caused by: (?>(?:[\w$]++\.)+)[\w$]*+(?:(?<=Exception)|(?<=Error)|(?<=Throwable))(?:[:\s]|\Z)(?P<cause>)"
    r"|Unhandled [Ee]xception[.:]\s{1,3}[A-Za-z_][\w.]*+(?:(?<=Exception)|(?<=Error))(?P<dotnet>)"
    r"|--- End of (?:inner exception stack trace|stack trace from previous location)(?P<rethrown>)"
    r"|stack traceback:[ \t\r]*+(?:\n|\Z)(?P<lua>)"
    r"|stack backtrace:[ \t\r]*+\n[ \t>]*+0: (?P<rust>)"
    r"|(?:PHP )?Fatal error: {1,2}Uncaught (?P<php>)"
    r"|PHP {1,4}\d++\. (?:\{main\}|[\w\\:>-]++)\((?P<php_call>)"
    r")"
    r"| {0,3}(?P<tildes>~~~)"
    r"|diff --git (?P<diff>)"
    r"|panic: (?P<panic>)"
    r"|goroutine \d++ \[(?P<goroutine>)"
    r"|==\d++== (?P<valgrind>)"
    r"|(?:==\d++==(?:ERROR|WARNING): \w{1,30}?Sanitizer|WARNING: \w{1,30}?Sanitizer: |SUMMARY: \w{1,30}?Sanitizer: )(?P<sanitizer>)"
    r"|(?:(?:Program|Thread \d)[^\n]{0,200}? (?:received|terminated with) signal SIG[A-Z]"
    r"|\[signal SIG[A-Z]++: |\*\*\* SIG[A-Z]++ (?:received|\(@)|PID \d++ received SIG[A-Z]|Exception Type: {1,9}EXC_)(?P<signal>)"
    r")"
)

_EVIDENCE: Final = {
    "fence": "fence",
    "tildes": "fence",
    "diff": "git_diff",
    "panic": "go_panic",
    "goroutine": "go_goroutine",
    "java": "java_trace",
    "cause": "java_trace",
    "dotnet": "dotnet_trace",
    "rethrown": "dotnet_trace",
    "lua": "lua_trace",
    "rust": "rust_panic",
    "php": "php_trace",
    "php_call": "php_trace",
    "frame": "native_crash",
    "starred": "native_crash",
    "jvm": "native_crash",
    "signal": "native_crash",
    "valgrind": "valgrind_report",
    "sanitizer": "sanitizer_report",
}
"""What is named for a beginning that needs no confirmation."""

_PYTHON: Final = "Traceback (most recent call last)"
_PYTHON_FRAME: Final = re.compile(r'File "[^"\n]++", line \d++,? in \S')
_JAVA_FRAME: Final = re.compile(
    r"[\w.$<>/@+-]++\((?:[^()\n:]*+(?<=\.java|scala)(?::\d|\))|[^()\n:]*\.(?:kts?|groovy|clj)(?::\d|\))"
    r"|NO_SOURCE_FILE:\d|Native Method\)|Unknown Source\))"
)
_LINE_AND_COLUMN: Final = re.compile(r":\d{1,9}:\d{1,9}\Z")
_LONGEST_LINE_AND_COLUMN: Final = 20
_LETTER: Final = re.compile(r"[^\W\d_]")
_AT_URL: Final = re.compile(r"\n[ \t>]*+[\w.$/<*>]*+@[a-z][a-z-]{2,20}://[^\s:]++(?::\d++[^\s:]*+){2,3}[ \t\r]*+(?=\n|\Z)")
_DOTNET_LINE: Final = re.compile(r":line \d")
_MONO_OFFSET: Final = re.compile(r"\) ?\[0x[0-9a-f]++\] in ")
_DOTNET_FRAME: Final = re.compile(r"[A-Za-z_<][\w.`<>|$+,\[\]]*+ ?(?:\[[^\]\n]*+\] ?)?\([^()\n]*+\)[ \t\r]*+\Z")
_PHP_FRAME: Final = re.compile(r"\d++ +(?:\{main\}|\[internal function\]: |[^\n]*?\.\w{1,8}\(\d++\): )")
_NATIVE_FRAME: Final = re.compile(r"\d++ +(?:0x[0-9a-fA-F]++ (?:in \S|\()|[\w:~<>*&$@.]++ \([^\n]*?\) (?:at [^\s:]++:\d|from /))")
_RUST_PANIC: Final = re.compile(r"thread '[^'\n]*+' (?:\(\d++\) )?panicked at (?:'|(?:[A-Za-z]:)?[^\n:']++:\d++:\d)")
_RUBY_FRAME: Final = re.compile(r":\d++:in [`'][^`'\n]++'")
_PERL_MARK: Final = " called at "
_PERL_CALLER: Final = re.compile(r"[\w:']++\(|eval \{|eval '|require ")
_PERL_PLACE: Final = re.compile(r" line \d")


_MOST_CANDIDATES: Final = 5_000
"""Lines that begin like a trace's and are none. Who writes more of them writes no trace; judging them all would take long."""

_MARKS: Final = (
    *("```", "~~~", "#", "at ", 'File "', "Exception", "Caused by: ", "Unhandled ", "--- End", "stack ", "Fatal error", "PHP "),
    *("diff --git ", "panic: ", "goroutine ", "==", "Sanitizer", "signal SIG", "*** SIG", "PID "),
)
"""Whatever `_LINE_START` finds holds one of these."""

_SHORT_LINE: Final = 32
"""Code points of an average line under which it is quicker to look for each mark first."""

_SAMPLE: Final = 4096
"""Code points of a stretch whose lines tell how long its lines are."""

_STRETCH: Final = 1 << 18
"""Code points searched at once: a search lets no other thread run."""

_OVERLAP: Final = 4096
"""How far a line's beginning may reach beyond its stretch."""


def find_diagnostic(texts: Iterable[str]) -> str | None:
    """The name of a code block, diff or stack trace in `texts` ("fence", "python_traceback", …); None if there is none."""
    text = "\n" + _SEPARATOR.join(texts)
    if _PYTHON in text:
        return "python_traceback"
    for candidate in islice(_candidates(text), _MOST_CANDIDATES):
        kind = candidate.lastgroup or ""
        evidence = _EVIDENCE.get(kind) or _confirmed(kind, text, candidate.end())
        if evidence is not None:
            return evidence
    return _inside_a_line(text)


def _candidates(text: str) -> Iterator[re.Match[str]]:
    """The lines that begin like a trace's, stretch by stretch."""
    position = 0
    for start in range(0, len(text), _STRETCH):
        end = start + _STRETCH
        if not _may_hold_a_mark(text, start, end + _OVERLAP):
            continue
        position = max(position, start)
        while (found := _LINE_START.search(text, position, end + _OVERLAP)) is not None and found.start() < end:
            yield found
            position = found.end()


def _may_hold_a_mark(text: str, start: int, end: int) -> bool:
    is_dense = text.count("\n", start, start + _SAMPLE) * _SHORT_LINE > _SAMPLE
    return not is_dense or any(text.find(mark, start, end) >= 0 for mark in _MARKS)


def _inside_a_line(text: str) -> str | None:
    if "panicked at " in text and _RUST_PANIC.search(text):
        return "rust_panic"
    if ":in " in text and _RUBY_FRAME.search(text):
        return "ruby_trace"
    if _PERL_MARK in text and _has_perl_frame(text):
        return "perl_trace"
    if "@" in text and "://" in text and _AT_URL.search(text):
        return "browser_trace"
    return None


def _confirmed(kind: str, text: str, position: int) -> str | None:
    """Judge a line whose beginning, up to `position`, is of `kind`."""
    if kind == "file":
        return "python_traceback" if _PYTHON_FRAME.match(text, position - len('File "')) else None
    if kind == "number":
        if _PHP_FRAME.match(text, position):
            return "php_trace"
        return "native_crash" if _NATIVE_FRAME.match(text, position) else None
    return _frame(text, position)


def _frame(text: str, position: int) -> str | None:
    """Judge a line that begins with "at "."""
    if _JAVA_FRAME.match(text, position):
        return "java_trace"
    line, end = _line(text, position)
    if _is_script_frame(line):
        return "node_trace"
    _, _, source = line.partition(") in ")
    if _DOTNET_LINE.search(source) or _MONO_OFFSET.search(line):
        return "dotnet_trace"
    if "." in line and _DOTNET_FRAME.match(line):
        following, _ = _line(text, end + 1)
        following = following.lstrip(" \t>")
        # One call without a file may be prose; two in a row are a stack.
        if following.startswith("at ") and _DOTNET_FRAME.match(following, len("at ")):
            return "dotnet_trace"
    return None


def _is_script_frame(line: str) -> bool:
    """Whether what follows "at " ends in a file's line and column, or in V8's name for no file."""
    line = line.rstrip(" \t\r,")
    if line.endswith(("(<anonymous>)", "(native)")):
        return True
    place = line[line.rfind("(") + 1 :].rstrip(")") if line.endswith(")") else line[line.rfind(" ") + 1 :]
    match = _LINE_AND_COLUMN.search(place, max(0, len(place) - _LONGEST_LINE_AND_COLUMN))
    if match is None:
        return False
    file = place[: match.start()]
    # A time of day has neither a letter nor a path.
    return any(mark in file for mark in "./\\>]:") and _LETTER.search(file) is not None


def _line(text: str, position: int) -> tuple[str, int]:
    """The rest of the line from `position` on, and where it ends."""
    end = text.find("\n", position)
    if end < 0:
        end = len(text)
    return text[position:end], end


def _has_perl_frame(text: str) -> bool:
    mark = text.find(_PERL_MARK)
    for _ in range(_MOST_CANDIDATES):
        if mark < 0:
            break
        start = text.rfind("\n", 0, mark) + 1
        line, end = _line(text, start)
        caller, _, place = line.lstrip(" \t>").rpartition(_PERL_MARK)
        if _PERL_CALLER.match(caller) and caller.endswith((")", "}", "'", ".pm", ".pl")) and _PERL_PLACE.search(place):
            return True
        mark = text.find(_PERL_MARK, end)
    return False
