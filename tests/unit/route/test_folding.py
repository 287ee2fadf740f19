"""The folded form of text."""

import pytest

from gomodel_trio.route import folding
from gomodel_trio.route.folding import fold


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        ("Think--HARD", "think hard"),
        ("a \t\r\n\x0b\x0c\x1c\x1d\x1e\x1f-b", "a b"),
        (" a ", " a "),
        ("a\xa0\u3000\u2009\u2028\x85\u1680\u2010\u2011b é", "a b é"),
        ("Straße", "strasse"),
        ("İI ıi", "ii ii"),
        ("ＡＢ，：！？（）；", "ab,:!?();"),
        ("ｶﾞ e\u0301", "ガ é"),
        ("\ufdfa", "\ufffc"),
        ("think – hard", "think – hard"),
        ("a\u200bb", "a\u200bb"),
    ],
)
def test_text_is_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_long_text_is_folded_in_pieces_that_cut_no_cluster() -> None:
    assert fold("e\u0301" * 600) == "é" * 600
    assert fold("é" + "\u1100\u1161\u11a8" * 400) == "é" + "각" * 400


def test_a_run_of_marks_without_end_is_cut_all_the_same() -> None:
    assert len(fold("a" + "\u0315\u0300" * 1000)) == 2000


def test_text_of_nothing_but_compatibility_forms_is_normalised_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "_MOST_ABNORMAL", 512)
    assert folding.fold("\ufb01" * 511) == "fi" * 511
    assert folding.fold("\u3300" * 1024).count("\u3300") == 512
    assert folding.fold(("é" * 256) * 9 + "\u3300") == "é" * 2304 + "アパート"
