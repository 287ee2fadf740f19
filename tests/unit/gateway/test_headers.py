"""Which headers pass, in either direction (behaviour.md §7; a gateway that leaks credentials is worse than none)."""

import pytest

from gomodel_trio.gateway.headers import for_client, for_upstream, is_credential, query_for_upstream, readable_codings


@pytest.mark.parametrize(
    "name",
    [
        b"authorization",
        b"proxy-authorization",
        b"x-api-key",
        b"api-key",
        b"apikey",
        b"x-goog-api-key",
        b"x-litellm-api-key",
        b"helicone-auth",
        b"x-amz-security-token",
        b"x-auth-token",
        b"ocp-apim-subscription-key",
        b"cookie",
        b"x-client-secret",
        b"x-portkey-api-key",
        b"cf-access-client-secret",
        b"cf-access-jwt-assertion",
    ],
)
def test_a_header_that_names_a_credential_never_goes_upstream(name: bytes) -> None:
    assert is_credential(name)
    assert for_upstream([(name, b"canary"), (b"accept", b"*/*")]) == [(b"accept", b"*/*")]


@pytest.mark.parametrize(
    "name",
    [
        b"anthropic-beta",
        b"anthropic-version",
        b"idempotency-key",
        b"user-agent",
        b"x-stainless-lang",
        b"x-session-id",
        b"openai-beta",
        b"content-type",
        b"accept",
        b"x-app",
        b"anthropic-dangerous-direct-browser-access",
        b"monkey",
        b"x-tokenizer",
    ],
)
def test_other_headers_pass_with_their_value(name: bytes) -> None:
    assert for_upstream([(name, b"v")]) == [(name, b"v")]


def test_ours_hop_by_hop_and_forwarding_headers_stay_here() -> None:
    sent = [
        (b"host", b"gateway"),
        (b"connection", b"keep-alive, x-hop"),
        (b"x-hop", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"te", b"trailers"),
        (b"transfer-encoding", b"chunked"),
        (b"content-length", b"3"),
        (b"expect", b"100-continue"),
        (b"x-gomodel-tier", b"hard"),
        (b"x-gomodel-user-path", b"/team"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"forwarded", b"for=10.0.0.1"),
        (b"via", b"1.1 proxy"),
        (b"x-real-ip", b"10.0.0.1"),
        (b"openai-organization", b"org-client"),
        (b"openai-project", b"proj-client"),
        (b"x-kept", b"yes"),
    ]
    assert for_upstream(sent) == [(b"x-kept", b"yes")]


@pytest.mark.parametrize(
    "name",
    [b"forwarded-for", b"x-original-forwarded-for", b"x-appengine-user-ip", b"x-envoy-external-address", b"x_client_ip", b"remote-addr"],
)
def test_a_header_that_says_where_a_request_came_from_never_goes_upstream(name: bytes) -> None:
    assert for_upstream([(name, b"10.0.0.1")]) == []


def test_a_client_cannot_have_a_header_dropped_by_naming_close() -> None:
    assert for_upstream([(b"connection", b"close"), (b"accept", b"*/*")]) == [(b"accept", b"*/*")]


def test_accept_encoding_is_passed_as_sent_where_all_of_it_can_be_read() -> None:
    assert readable_codings(b"gzip, deflate") == b"gzip, deflate"


def test_accept_encoding_is_cut_to_what_can_be_read() -> None:
    assert readable_codings(b"gzip, deflate, br, zstd") == b"gzip, deflate"
    assert for_upstream([(b"accept-encoding", b"br")]) == []


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (b"", b""),
        (b"beta=true", b"beta=true"),
        (b"key=CANARY", b""),
        (b"beta=true&key=CANARY&x=%20y", b"beta=true&x=%20y"),
        (b"api_key=C&api-key=C&access_token=C&token=C&a=1", b"a=1"),
        (b"%6Bey=C&b=2", b"b=2"),
        (b"keyword=tea&monkey=1", b"keyword=tea&monkey=1"),
    ],
)
def test_credentials_in_a_query_never_go_upstream(query: bytes, kept: bytes) -> None:
    assert query_for_upstream(query) == kept


def test_an_answers_own_framing_and_account_headers_stay_here() -> None:
    answered = [
        (b"content-type", b"application/json"),
        (b"content-length", b"5"),
        (b"transfer-encoding", b"chunked"),
        (b"set-cookie", b"s=1"),
        (b"server", b"cloudflare"),
        (b"date", b"today"),
        (b"openai-organization", b"org-operator"),
        (b"anthropic-organization-id", b"0000"),
        (b"location", b"http://upstream.internal/"),
        (b"x-gomodel-target", b"forged"),
        (b"x-ratelimit-remaining-requests", b"9"),
        (b"request-id", b"req_1"),
        (b"content-encoding", b"gzip"),
    ]
    assert for_client(answered) == [
        (b"content-type", b"application/json"),
        (b"x-ratelimit-remaining-requests", b"9"),
        (b"request-id", b"req_1"),
        (b"content-encoding", b"gzip"),
    ]


@pytest.mark.parametrize("name", [b":authority", b"sec-fetch-mode", b"proxy-foo", b"x-gomodel-anything"])
def test_whole_families_of_headers_stay_here(name: bytes) -> None:
    assert for_upstream([(name, b"x")]) == []


def test_a_mixed_accept_encoding_keeps_its_weights() -> None:
    assert for_upstream([(b"accept-encoding", b"zstd;q=1, gzip;q=0.5 ,identity;q=0")]) == [
        (b"accept-encoding", b"gzip;q=0.5, identity;q=0")
    ]


def test_what_an_upstreams_connection_header_names_stays_here() -> None:
    assert for_client([(b"connection", b"X-Hop, close"), (b"x-hop", b"1"), (b"proxy-status", b"x"), (b"x-kept", b"1")]) == [
        (b"x-kept", b"1")
    ]


@pytest.mark.parametrize(
    "name",
    [
        b"x-accesstoken", b"x-authtoken", b"authorization2", b"x-userauth", b"x-pat", b"x-csrftoken", b"x-xsrf-token", b"phpsessid",
        b"x-ms-client-principal", b"x-api-key-2", b"x_api_key", b"x-goog-iam-authorization-token", b"x-secretkey",
    ],
)  # fmt: skip
def test_credentials_are_known_however_their_names_are_run_together(name: bytes) -> None:
    assert is_credential(name)
    assert for_upstream([(name, b"canary")]) == []


@pytest.mark.parametrize(
    "name",
    [
        b"x_forwarded_for", b"x_real_ip", b"x_gomodel_tier", b"content_length", b"transfer_encoding", b"x-forwarded", b"x-original-url",
        b"x-rewrite-url", b"x-original-host", b"x-http-method-override", b"x-method-override", b"fastly-client-ip", b"x-azure-clientip",
        b"x-envoy-external-address", b"x-cluster-client-ip", b"cf-access-authenticated-user-email", b"x-forwarded-" + b"x" * 500,
    ],
)  # fmt: skip
def test_whatever_tells_of_the_way_to_the_gateway_stays_here(name: bytes) -> None:
    assert for_upstream([(name, b"canary")]) == []


@pytest.mark.parametrize(
    "name",
    [
        b"session_id",
        b"idempotency_key",
        b"x-author",
        b"x-pattern",
        b"x-path",
        b"x-keyword",
        b"authority-info",
        b"x-stainless-os",
        b"y" * 500,
    ],
)
def test_names_that_only_look_alike_pass(name: bytes) -> None:
    assert for_upstream([(name, b"v")]) == [(name, b"v")]


@pytest.mark.parametrize("name", [b"accessToken", b"authToken", b"apikey2", b"sessionToken", b"APIKey", b"api_key_2", b"X-Amz-Signature"])
def test_a_credential_in_a_query_is_known_in_camel_case_and_numbered(name: bytes) -> None:
    assert query_for_upstream(b"a=1&" + name + b"=C") == b"a=1"


def test_a_query_may_speak_of_tokens_and_sessions() -> None:
    query = b"max_tokens=1&maxTokens=2&sessionId=3&token_count=4&api-version=5"
    assert query_for_upstream(query) == query


@pytest.mark.parametrize(
    "name",
    [
        b"x-accel-redirect", b"x_accel_redirect", b"x-sendfile", b"x-reproxy-url", b"clear-site-data", b"refresh",
        b"service-worker-allowed",
        b"access-control-allow-origin", b"public-key-pins", b"x-accel-" + b"x" * 500,
    ],
)  # fmt: skip
def test_an_upstreams_orders_to_proxies_and_browsers_stay_here(name: bytes) -> None:
    assert for_client([(name, b"/internal"), (b"x-accel-buffering", b"no"), (b"link", b"<a>")]) == [
        (b"x-accel-buffering", b"no"),
        (b"link", b"<a>"),
    ]
