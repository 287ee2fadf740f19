"""What GoModel knows and this version lacks: variables and YAML keys that warn by name instead of stopping the start.

Layer: config. Source: behaviour.md §10.
"""

LATER_VARIABLES = frozenset({"STORAGE_TYPE", "SQLITE_PATH", "POSTGRES_URL", "POSTGRES_MAX_CONNS"})
"""Of the audit, which comes in a later version."""

LATER_PREFIXES = ("LOGGING_", "USAGE_")

FOREIGN_VARIABLES = frozenset(
    {
        "ADMIN_ENDPOINTS_ENABLED", "ADMIN_UI_ENABLED", "ALLOW_PASSTHROUGH_V1_ALIAS", "ANTHROPIC_DEFAULT_MAX_TOKENS",
        "AUTH_VERIFY_ENABLED", "BUDGETS_ENABLED", "CACHE_REFRESH_INTERVAL", "CIRCUIT_BREAKER_FAILURE_THRESHOLD",
        "CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD", "CIRCUIT_BREAKER_SUCCESS_THRESHOLD", "CIRCUIT_BREAKER_TIMEOUT",
        "CONFIG_STRICT", "CONFIGURED_PROVIDER_MODELS_MODE", "DEEPSEEK_JSON_SCHEMA_MODE", "ENABLED_PASSTHROUGH_PROVIDERS",
        "ENABLE_GUARDRAILS_FOR_BATCH_PROCESSING", "ENABLE_PASSTHROUGH_ROUTES", "ENFORCE_RETURNING_USAGE_DATA",
        "FAILOVER_DISABLED_MODELS", "FAILOVER_DISABLED_MODELS_JSON", "FAILOVER_MANUAL_RULES_PATH", "FAILOVER_MODE",
        "FAILOVER_RETRY_ON_ERRORS", "FAILOVER_RETRY_ON_STATUSES", "FAILOVER_RULES_JSON", "FALLBACK_MANUAL_RULES_PATH",
        "FEATURE_FALLBACK_MODE", "GEMINI_API_MODE", "GOMODEL_CACHE_DIR", "GOMODEL_DEMO_MODE", "GOMODEL_OFFLINE",
        "GOMODEL_VERSION_CHECK_ENABLED", "GOMODEL_VERSION_CHECK_URL", "GUARDRAILS_ENABLED", "MASTER_KEY_DISABLED",
        "MCP_ALLOWED_ORIGINS", "MCP_ENABLED", "MCP_SERVERS", "MCP_TOOL_DISCOVERY", "METRICS_ENDPOINT",
        "MODELS_ENABLED_BY_DEFAULT", "MODEL_LIST_URL", "MODEL_OVERRIDES_ENABLED", "MONGODB_DATABASE", "MONGODB_URL",
        "OPENROUTER_APP_NAME", "OPENROUTER_SITE_URL", "OTEL_ENABLED", "PID_FILE", "PLUGINS_ENABLED", "PLUGINS_LOAD",
        "PLUGINS_SEARCH_PATHS", "PPROF_ENABLED", "PROVIDER_PROMPT_CACHE_PLANNER_ENABLED", "PROVIDER_RECHECK_INTERVAL",
        "RATE_LIMITS_ENABLED", "RATE_LIMITS_FLUSH_INTERVAL", "REALTIME_ENABLED", "REDIS_KEY_MODELS", "REDIS_KEY_RESPONSES",
        "REDIS_TTL_MODELS", "REDIS_TTL_RESPONSES", "REDIS_URL", "RESPONSE_CACHE_SIMPLE_ENABLED", "RETRY_BACKOFF_FACTOR",
        "RETRY_JITTER_FACTOR", "SERVER_CLIENT_IP_HEADER", "SERVER_TRUSTED_HOPS", "SERVER_TRUSTED_PROXIES",
        "STREAM_STALL_TIMEOUT", "SWAGGER_ENABLED", "UNQUALIFIED_MODEL_IDS_AT_MODELS_ENDPOINT", "USERS",
        "USER_PATH_HEADER", "USE_GOOGLE_GEMINI_NATIVE_API", "WORKFLOW_REFRESH_INTERVAL",
    }
)  # fmt: skip

FOREIGN_PREFIXES = (
    "DASHBOARD_LIVE_LOGS_", "MEDIA_STORAGE_", "SEMANTIC_CACHE_", "SET_BUDGET_", "SET_PROVIDER_RATE_LIMIT_", "SET_RATE_LIMIT_",
    "TAGGING_HEADER_",
)  # fmt: skip

FOREIGN_PROVIDER_FIELDS = (
    "API_MODE", "AUTH_TYPE", "GCP_SCOPE", "LOCATION", "MODEL_FILTER_EXCLUDE", "MODEL_FILTER_INCLUDE", "MODEL_FILTER_MAX_PRICE_PER_MTOK",
    "PROJECT", "SERVICE_ACCOUNT_FILE", "SERVICE_ACCOUNT_JSON", "SERVICE_ACCOUNT_JSON_BASE64", "SESSION_STICKY_KEYS",
)  # fmt: skip
"""Endings of provider variables, after `<TYPE>[_SUFFIX]_`."""

FOREIGN_SECTIONS = frozenset(
    {
        "admin", "auth", "budgets", "cache", "encryption", "extensions", "fallback", "guardrails", "header_policies", "mcp", "media",
        "opentelemetry", "plugins", "rate_limits", "tagging", "users", "version_check", "workflows",
    }
)  # fmt: skip
LATER_SECTIONS = frozenset({"logging", "storage", "usage"})

FOREIGN_KEYS = {
    "server": frozenset(
        {
            "allow_passthrough_v1_alias", "auth_verify_enabled", "client_ip_header", "enable_passthrough_routes",
            "enabled_passthrough_providers", "master_key_disabled", "pid_file", "pprof_enabled", "realtime_enabled",
            "stream_stall_timeout", "swagger_enabled", "trusted_hops", "trusted_proxies", "user_path_header",
        }
    ),
    "models": frozenset(
        {
            "configured_provider_models_mode", "enabled_by_default", "overrides_enabled", "unqualified_ids_at_models_endpoint",
            "unqualified_model_ids_at_models_endpoint",
        }
    ),
    "failover": frozenset(
        {
            "default_mode", "disabled_models", "disabled_models_json", "manual_rules_path", "overrides", "retry_on_errors",
            "retry_on_statuses", "rules", "rules_json",
        }
    ),
    "metrics": frozenset({"endpoint"}),
    "http": frozenset[str](),
    "resilience.retry": frozenset({"backoff_factor", "jitter_factor"}),
    "resilience.circuit_breaker": frozenset({"failure_threshold", "slow_call_threshold", "success_threshold", "timeout"}),
}  # fmt: skip
"""Keys of GoModel's in sections that we have."""

FOREIGN_PROVIDER_KEYS = frozenset(
    {
        "api_mode", "auth_type", "backend", "default_max_tokens", "fairness_from_user_path", "gcp_scope", "inference_objective",
        "model_filter", "passthrough_user_headers", "passthrough_user_headers_skip", "passthrough_user_headers_skip_mode",
        "resilience", "service_account_file", "service_account_json", "service_account_json_base64", "session_sticky_keys",
        "vertex_location", "vertex_project",
    }
)  # fmt: skip

FOREIGN_VIRTUAL_MODEL_KEYS = frozenset({"strategy_config", "strategy_plugin", "vision_routing"})
