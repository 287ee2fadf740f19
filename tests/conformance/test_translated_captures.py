"""What real clients send, asked of targets of every other form: translated, or refused with the field's name (behaviour.md §7)."""

import json
from typing import Any

import pytest

from gomodel_trio.translate import table
from gomodel_trio.translate.canonical import Form, Untranslatable
from gomodel_trio.translate.translation import translation
from gomodel_trio.wire.dialect import API_BY_PATH
from support.shared_cases import files, needs_shared_cases

pytestmark = needs_shared_cases

FORMS = {form.value: form for form in table.REQUEST_READERS}
CAPTURES = [
    (name, FORMS[API_BY_PATH[path].value], content["body"])
    for name, content in files("captures/*/[0-9]*.json")
    if (path := content["path"].partition("?")[0]) in API_BY_PATH and API_BY_PATH[path].value in FORMS
]
CANNOT = {
    "web_search_20250305", "conversation", "previous_response_id", "the target's Messages API takes no audio",
}  # fmt: skip
"""What the captures want that no other form has."""


@pytest.mark.parametrize("target", FORMS.values())
@pytest.mark.parametrize(("name", "client", "body"), CAPTURES, ids=[name for name, _, _ in CAPTURES])
def test_a_captured_request_is_translated_or_refused_by_name(name: str, client: Form, body: Any, target: Form) -> None:
    sent = body if isinstance(body, str) else json.dumps(body)
    if client is target or not isinstance(json.loads(sent), dict):
        return
    refusal: Untranslatable | None = None
    try:
        written = translation(client, target, sent.encode(), now_epoch_s=1, drops_provider=False, is_openai=True).body("other")
    except Untranslatable as error:
        refusal = error
    else:
        assert json.loads(written)["model"] == "other"
    if refusal is not None:
        assert any(reason in refusal.message for reason in CANNOT)
        assert refusal.field
        assert refusal.message.startswith(refusal.field)
