"""Session detection on any input."""

from hypothesis import given
from hypothesis import strategies as st

from gomodel_trio.route.session import BUILTIN_HEADERS, SessionDetector, SessionRules
from gomodel_trio.wire.dialect import Api

DETECTOR = SessionDetector(SessionRules())
HEADERS = st.lists(st.tuples(st.sampled_from([name.encode() for name in BUILTIN_HEADERS]), st.binary(max_size=8)), max_size=3)
BODIES = st.binary(max_size=80) | st.text(alphabet='{}[]":,\\ud8<-0e "messagrolidto', max_size=80).map(str.encode)


@given(HEADERS, BODIES, st.sampled_from([*Api, None]), st.text(max_size=5))
def test_detection_never_raises_and_gives_a_usable_id(headers: list[tuple[bytes, bytes]], body: bytes, api: Api | None, path: str) -> None:
    found = DETECTOR.detect(headers, body, api, path)

    assert found is None or (0 < len(found) <= 200 and not any(character < " " or character == "\x7f" for character in found))
    assert found == DETECTOR.detect(headers, body, api, path)
