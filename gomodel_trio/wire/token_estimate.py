"""How many tokens a text has, about: for requests whose target counts none itself.

Layer: wire; pure, linear in the text, no vocabulary. Source: behaviour.md §1 (count_tokens); OpenAI's o200k_base is what it imitates.

Theory. A byte-pair tokenizer first splits text into words, numbers of three digits, runs of punctuation and white space, then merges within
each. A frequent word is one token; a rarer one is the longer the more, and how much more depends on the language: how well the vocabulary
knows it. So a word costs 1 + rate · (length - knee), both per language, and the language of a stretch of text is that of most of its
function words. Rates and knees were fitted to o200k_base by word frequencies, the rest to code and manuals, with a tenth more for the
languages that prose showed to need it. `spec/vectors/token_estimate.json` shows what comes out.
"""

import re
from collections import Counter
from typing import Any, Final

import msgspec

from gomodel_trio.wire.lenient_json import decode_any

_STRETCH: Final = 8192
"""Code points that are taken to be in one language."""


class _Language(msgspec.Struct, frozen=True):
    """`rate` tokens for each letter beyond `knee`, of words in small letters, and of those with a capital."""

    knee: float
    rate: float
    capital_knee: float
    capital_rate: float


_ENGLISH: Final = _Language(2.5, 0.025, 3.5, 0.080)
_UNKNOWN: Final = _Language(2.5, 0.2, 1.5, 0.2)
"""No function word, but letters beyond ASCII."""

_FRENCH, _SPANISH, _ITALIAN = _Language(3.0, 0.088, 1.5, 0.159), _Language(3.0, 0.085, 1.5, 0.154), _Language(3.0, 0.168, 1.5, 0.199)
_NORDIC = _Language(3.5, 0.235, 1.5, 0.223)

_FUNCTION_WORDS: Final = (
    (_ENGLISH, "the to and of a in i is for that you it on with this was be as are have at he not by but from my or we an your"),
    (_Language(3.5, 0.161, 2.5, 0.161), "die der und in das ich ist nicht zu den von mit es ein auf für im sie eine sich auch dem des als"),
    (_FRENCH, "de la le et l à les est en des d un que a pas une du il pour dans je qui c au ce sur qu par on ne plus avec"),
    (_SPANISH, "de la que el en y a los no un se por es del las con una para lo su al como más si pero te o mi le este"),
    (_SPANISH, "de a o que e do em da é para não um uma com no se na por os eu como as mais dos mas foi ao me você"),
    (_ITALIAN, "di e che il la a in non un per è del l i una le si con della da sono ma al ha come più dei se nel mi alla"),
    (_Language(4.5, 0.154, 2.0, 0.188), "de van het een en in is op ik dat voor je te met niet zijn die als er maar om aan hij ook ze"),
    (_Language(2.5, 0.280, 0.5, 0.280), "w i nie na się to z do jest że o jak a ale co tak za od po dla tym czy przez tego są"),
    (_Language(2.0, 0.227, 1.0, 0.275), "ve bir bu için de da çok ile ne daha en gibi olarak her kadar o olan ben var ama sonra ki"),
    (_NORDIC, "är det att och i jag på en inte som för med har av om du så till den de ett kan vi"),
    (_NORDIC, "og i er det å på som til en av for ikke med har jeg at de du om den så vi fra var et af"),
    (_Language(2.0, 0.277, 0.5, 0.287), "a se v na je to že s z si do jsem ale o i tak pro ve za co k jako po by už od jsou"),
    (_Language(3.0, 0.280, 1.0, 0.268), "ja on ei että se oli mutta ole kun niin myös hän jos ovat voi nyt sen kuin tai joka"),
    (_Language(2.5, 0.331, 1.5, 0.342), "a az és nem hogy egy is de meg csak ha van volt ez vagy már még én ki azt most"),
    (_Language(2.0, 0.218, 1.0, 0.235), "de în și a la să din o pe cu nu mai un este că care pentru se au ce fost ca al am"),
    (_Language(3.5, 0.186, 1.5, 0.204), "yang dan di ini dari untuk dengan itu bisa ada tidak akan adalah dalam pada kita orang ke"),
)
"""The words of each language that are met most, all of one token. One language is listed once for each set of words."""
_BY_WORD: Final[dict[str, list[int]]] = {}
for _index, (_, _words) in enumerate(_FUNCTION_WORDS):
    for _word in _words.split():
        _BY_WORD.setdefault(_word, []).append(_index)

_LEAST_SHARE: Final = 0.04
"""Of a language's function words among all words, for the stretch to count as written in it; names in code stay below."""
_FOREIGN_SHARE: Final = 0.1
"""Of letters in words that are not ASCII, from which a text without function words is no English or code."""

# ---- what a text is made of -----------------------------------------------------------------------------------------

_CAPITALS, _SMALL = "A-Z\u00c0-\u00d6\u00d8-\u00de", "a-z\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_LATIN: Final = re.compile(f"[{_CAPITALS}]*[{_SMALL}]+|[{_CAPITALS}]+")
"""Words, and the parts of names like `parseBody`."""
_CYRILLIC: Final = re.compile("[\u0400-\u052f]+")
_UKRAINIAN: Final = re.compile("[\u0456\u0457\u0454\u0491]")
_UKRAINIAN_SHARE: Final = 0.02
_RUSSIAN_RATE, _UKRAINIAN_RATE, _CYRILLIC_KNEE = 0.155, 0.295, 2.0

_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_HANGUL: Final = re.compile("[\uac00-\ud7a3]")
_CJK_MARK: Final = re.compile("[\u3000-\u303f\uff00-\uffef]")
_HAN_RATE, _KANJI_RATE, _KANA_RATE, _HANGUL_RATE, _CJK_MARK_RATE = 0.71, 0.88, 0.67, 0.755, 1.2
_OTHER_SCRIPTS: Final = "\u0370-\u03ff\u0531-\u1dff\u1f00-\u1fff\ua000-\uabff"
_OTHER: Final = re.compile(f"[{_OTHER_SCRIPTS}]")
_OTHER_RATE: Final = 0.4
"""Greek, Hebrew, Arabic, the scripts of India and others: 0.34 to 0.43 in those that were measured."""

_NUMBER: Final = re.compile(r"\d+")
_SPACED_NUMBER: Final = re.compile(r"[ \t]\d")
"""The space before a word is part of its token; before a number it is one of its own."""
_MARKS: Final = re.compile(f"(?:[^\\w\\s\u3000-\u303f\uff00-\uffef{_OTHER_SCRIPTS}]|_)+")
_PREFIXED: Final = re.compile(r"(?<![^\w\s])(?<!_)(?:[^\w\s]|_)(?=[^\W\d_])")
"""A single mark before a letter; it is often of one token with the word, as in `.append` and `_name`."""
_BREAK: Final = re.compile(r"\s*[\r\n]+")
_BREAK_AFTER_MARK: Final = re.compile(r"(?:[^\w\s]|_)[\r\n]")
_GAP: Final = re.compile(r"[ \t]{2,}")
_MARKS_RATE, _PREFIXED_RATE, _BREAK_RATE, _BREAK_AFTER_MARK_RATE, _GAP_RATE = 0.95, 0.66, 1.0, 0.36, 0.72
_FURTHER_MARK, _SYMBOL, _PICTURE = 0.07, 0.4, 1.5
"""Each mark of a run beyond the second; each of them beyond ASCII; each emoji."""
_USUAL: Final = frozenset("\u2013\u2014\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026")


# ---- what a request is made of ---------------------------------------------------------------------------------------

_EACH_MESSAGE, _EACH_REQUEST, _EACH_TOOL = 4, 3, 8
"""What stands around a message, before the answer, and around a tool's definition (OpenAI's chat format)."""
_IMAGE: Final = 1600
"""Anthropic documents width times height / 750 tokens, of an image scaled to 1.15 megapixels at most. Its size is not looked for: most
images that are sent are at least that large."""
_FILE: Final = 3000
"""A document that is no text: Anthropic documents 1 500 to 3 000 tokens a page. Its pages are not counted either."""
_MUTE: Final = frozenset(
    {"type", "id", "tool_use_id", "cache_control", "signature", "citations", "media_type", "file_id", "is_error", "url"}
)
"""Members of a content block that are not shown to a model."""


def estimate_request(body: bytes) -> int:
    """Tell about how many input tokens an Anthropic request has: system, messages, tools. Never raises; at least 1.

    A body that is no such object is taken as text.
    """
    document = decode_any(body)
    if not isinstance(document, dict):
        return max(1, estimate(body.decode("utf-8", "replace")))
    messages = document.get("messages")
    messages = messages if isinstance(messages, list) else []
    tools = document.get("tools")
    tools = tools if isinstance(tools, list) else []
    contents = [message.get("content") if isinstance(message, dict) else message for message in messages]
    system = document.get("system")
    tokens: float = _EACH_REQUEST + _EACH_MESSAGE * (len(messages) + bool(system)) + _EACH_TOOL * len(tools)
    tokens += sum(_of_content(content) for content in (system, *contents))
    return round(
        tokens
        + sum(
            _estimate(_compact({key: tool[key] for key in tool if key != "cache_control"}) if isinstance(tool, dict) else "")
            for tool in tools
        )
    )


def _of_content(content: Any) -> float:
    """A string, or blocks, which may hold blocks of their own (`tool_result`)."""
    tokens, waiting = 0.0, [content]
    while waiting:
        match waiting.pop():
            case str(text):
                tokens += _estimate(text)
            case list(blocks):
                waiting += blocks
            case {"type": "image"}:
                tokens += _IMAGE
            case {"type": "document", "source": {"type": "base64" | "url" | "file"}}:
                tokens += _FILE
            case {"type": "tool_use", "name": name, "input": given}:
                tokens += _estimate(f"{name} {_compact(given)}")
            case dict(block):
                waiting += [value for key, value in block.items() if key not in _MUTE]
            case _:
                pass
    return tokens


def _compact(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, RecursionError):  # a lone surrogate
        return str(value)


# ---- a text ---------------------------------------------------------------------------------------------------------


def estimate(text: str) -> int:
    """Tell about how many tokens a text has."""
    return round(_estimate(text))


def _estimate(text: str) -> float:
    return sum(_of_stretch(text[start : start + _STRETCH]) for start in range(0, len(text), _STRETCH))


def _of_stretch(text: str) -> float:
    tokens = _of_words(text) + _of_marks(text)
    tokens += sum(-(-len(number) // 3) for number in _NUMBER.findall(text)) + len(_SPACED_NUMBER.findall(text))
    after_mark = len(_BREAK_AFTER_MARK.findall(text))
    tokens += _BREAK_RATE * max(0, len(_BREAK.findall(text)) - after_mark) + _BREAK_AFTER_MARK_RATE * after_mark
    tokens += _GAP_RATE * len(_GAP.findall(text))
    return tokens if text.isascii() else tokens + _of_other_scripts(text)


# ---- words ----------------------------------------------------------------------------------------------------------


def _of_words(text: str) -> float:
    words = Counter(_LATIN.findall(text))
    language = _language_of(words)
    tokens = 0.0
    for word, count in words.items():
        small = word.lower()
        if small in _BY_WORD or (word != small and word.isupper()):
            tokens += count
        elif word == small:
            tokens += count * (1 + language.rate * max(0.0, len(word) - language.knee))
        else:
            tokens += count * (1 + language.capital_rate * max(0.0, len(word) - language.capital_knee))
    return tokens


def _language_of(words: Counter[str]) -> _Language:
    hits = [0.0] * len(_FUNCTION_WORDS)
    foreign = letters = 0
    for word, count in words.items():
        letters += count * len(word)
        foreign += 0 if word.isascii() else count * len(word)
        indices = _BY_WORD.get(word) or _BY_WORD.get(word.lower()) or []
        for index in indices:
            hits[index] += count / len(indices)
    most = max(range(len(hits)), key=hits.__getitem__)
    if hits[most] > _LEAST_SHARE * words.total():
        return _FUNCTION_WORDS[most][0]
    return _UNKNOWN if foreign > _FOREIGN_SHARE * letters else _ENGLISH


def _of_other_scripts(text: str) -> float:
    cyrillic = _CYRILLIC.findall(text)
    letters = sum(map(len, cyrillic))
    rate = _UKRAINIAN_RATE if len(_UKRAINIAN.findall(text)) > _UKRAINIAN_SHARE * letters else _RUSSIAN_RATE
    tokens = sum(1 + rate * max(0.0, len(word) - _CYRILLIC_KNEE) for word in cyrillic)
    kana = len(_KANA.findall(text))
    tokens += (_KANJI_RATE if kana else _HAN_RATE) * len(_HAN.findall(text)) + _KANA_RATE * kana
    tokens += _HANGUL_RATE * len(_HANGUL.findall(text)) + _CJK_MARK_RATE * len(_CJK_MARK.findall(text))
    return tokens + _OTHER_RATE * len(_OTHER.findall(text))


# ---- marks ----------------------------------------------------------------------------------------------------------


def _of_marks(text: str) -> float:
    runs = Counter(_MARKS.findall(text))
    prefixed = len(_PREFIXED.findall(text))
    tokens = _PREFIXED_RATE * prefixed + _MARKS_RATE * max(0, runs.total() - prefixed)
    for run, count in runs.items():
        if len(run) > 2:
            # A line of one mark is a token for every 32 of them.
            tokens += count * (len(run) / 32 if len(set(run)) == 1 else _FURTHER_MARK * (len(run) - 2))
        if not run.isascii():
            tokens += count * sum(_PICTURE if mark > "\uffff" else _SYMBOL for mark in run if mark > "\x7f" and mark not in _USUAL)
    return tokens
