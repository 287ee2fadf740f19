"""What providers say in words where they give no code: account, key, model, moderation, request size.

Layer: route. Pure and linear: at most 4 KiB of a message are looked at, every repetition in a pattern is bounded. Source: behaviour.md
§5, §6; the error pages of OpenAI, Azure, Anthropic, Google, AWS, OpenRouter, Groq, xAI, DeepSeek, Mistral, Together, Fireworks,
Perplexity, Moonshot, DashScope, vLLM and Ollama.

The word "quota" alone is no sign of an empty account: Google and Azure use it for limits per minute.
"""

import re

_MOST_TEXT = 4096


def plain(message: str) -> str:
    """A message in lower case with plain apostrophes, cut to what is looked at."""
    return message[:_MOST_TEXT].lower().replace("’", "'")


def account_phrase(text: str) -> str | None:
    """The words that say that the account is out of credit, over its spending limit, or not paid; None if there are none."""
    match = _ACCOUNT.search(text)
    return match[0] if match else None


def bad_key_phrase(text: str) -> str | None:
    """The words that say that the credential is wrong; None if there are none."""
    match = _BAD_KEY.search(text)
    return match[0] if match else None


def says_flagged(text: str) -> bool:
    """Whether it says that the input was flagged; an account or a key that was flagged is another matter."""
    return _FLAGGED.search(text) is not None and _FLAGGED_ACCOUNT.search(text) is None


def says_too_large(text: str) -> bool:
    """Whether a rate limit says that this request is larger than the limit itself, so that waiting cannot help."""
    if _TOO_LARGE.search(text) is not None:
        return True
    for pattern, limit, requested in ((_LIMIT_REQUESTED, 1, 2), (_REQUESTED_LIMIT, 2, 1)):
        match = pattern.search(text)
        if match is not None:
            return _number(match[requested]) > _number(match[limit])
    return False


def says_no_model(text: str, model: str) -> bool:
    """Whether it says that the model (not a parameter) is not found, not supported, unavailable or deprecated."""
    if _NO_MODEL.search(text) is not None:
        return True
    return any(_is_about_model(sentence, model.lower()) for sentence in _SENTENCE_END.split(text))


def _is_about_model(sentence: str, model: str) -> bool:
    """Whether "model" is the subject of what the sentence denies: between the two stand only its name and harmless words."""
    for predicate in _PREDICATE.finditer(sentence):
        before = sentence[: predicate.start()]
        subject = max(_SUBJECTS, key=before.rfind)
        if subject not in before:
            continue
        between = before[before.rfind(subject) + len(subject) :]
        behind = sentence[predicate.end() : predicate.end() + 120]
        with_what = behind if _WITH.match(behind) else ""
        if len(between) <= 240 and "," not in between.replace(model, "") and not _names_parameter(f"{between} {with_what}", model):
            return True
    return False


def _names_parameter(words: str, model: str) -> bool:
    """Whether a word is a parameter of the API; the model's own name is none, though it may hold such a word."""
    for raw in words.split():
        word = raw.strip("\"'`()[]{}:;,.")
        if word != model and (_PARAMETER.fullmatch(word) or _SNAKE.fullmatch(word)):
            return True
    return False


def _number(text: str) -> int:
    return int(text.replace(",", ""))


_SUBJECTS = ("model", "deployment")
_HAVE = r"(?:is |are |was |has |have |been |already ){0,3}"
_ACCOUNT = re.compile(
    r"credit balance is too low"
    r"|\b(?:insufficient|not enough|out of) (?:\w{1,20} )?(?:balance|credits?|funds)\b"
    r"|\bno (?:more |prepaid |remaining |available ){0,3}credits? (?:\w{1,12} )?(?:left|remaining|remain|available)\b"
    rf"|\b(?:balance|credits?|funds) {_HAVE}(?:insufficient|not enough|too low|exhausted|depleted|used up|negative)\b"
    r"|\bused (?:up )?all (?:of )?(?:your |its |the )?(?:available |prepaid |remaining )?credits?\b"
    r"|\b(?:doesn't|does not|do not|don't) have (?:any|enough|sufficient) (?:\w{1,20} )?(?:credits?|balance|funds)\b"
    rf"|\b(?:spend|spending|billing|credit)(?: hard)? limit {_HAVE}(?:reached|exceeded|hit)\b"
    rf"|(?<!rate )\busage limit {_HAVE}reached\b"
    r"|\b(?:reached|exceeded|hit) (?:its|your|the|their|our)(?: \w{1,20}){0,4} (?:spend|spending|billing|credit) limits?\b"
    r"|\breached (?:its|your|the|their|our)(?: \w{1,20}){0,4} usage limits?\b"
    r"|\bkey limit exceeded\b"
    r"|\brequires? billing to be enabled|\bplease enable billing\b"
    r"|\bbilling (?:is |has |been ){0,2}(?:not (?:been )?(?:enabled|active)|disabled)\b"
    r"|\bpayment (?:is )?required\b|\bfailure to pay\b|\bpast[ -]due\b|\boverdue\b|\bunpaid\b|\bin arrears\b|invalid_payment_instrument"
    r"|\baccount (?:\S{1,80} )?is (?:suspended|not active|not in good standing)\b|\baccount is in good standing\b"
    r"|余额不足|欠费"
)
_BAD_KEY = re.compile(
    r"\b(?:incorrect|invalid|wrong|missing|expired|unknown|malformed) (?:\w{1,20} )?api[ -]?key\b"
    r"|\bapi[ -]?key (?:\S{1,80} )?(?:is |was |has )?(?:not valid|invalid|incorrect|expired|not found|disabled|revoked|missing)\b"
    r"|\b(?:invalid|expired) (?:bearer|access|security|auth|authentication) (?:token|credentials?)\b"
    r"|\bsecurity token included in the request is (?:expired|invalid)\b"
    r"|\b(?:this|your) (?:organi[sz]ation|account|workspace|project|team) (?:has been|is|was) (?:disabled|deactivated|blocked|terminated)\b"
)
_FEW = r"(?:\w{1,20} ){0,3}"
_FLAGGED = re.compile(
    r"\b(?:input|prompt|content|message|request|text|image|conversation)s? (?:\w{1,20} ){0,4}flagged\b"
    rf"|\bflagged (?:by|for|as) {_FEW}"
    r"(?:moderation|violat\w{0,8}|harm\w{0,8}|unsafe|safety|polic\w{0,4}|sexual|violence|hate|self-harm)"
    rf"|\b(?:input|prompt|content|message|request|text|image)s? {_FEW}(?:violates?|violated)\b"
    rf"|\b(?:prompt|input|content) {_FEW}(?:blocked|rejected) (?:by|for|due to) {_FEW}(?:moderation|safety|polic\w{{0,4}}|filter)"
)
_FLAGGED_ACCOUNT = re.compile(
    r"\b(?:account|organi[sz]ation|project|user|key|team|workspace) (?:\S{1,80} )?(?:has been |was |is |been )flagged\b"
)
_TOO_LARGE = re.compile(r"\brequest too large\b|\brequest is too large\b|\brequired for long context requests\b")
_LIMIT_REQUESTED = re.compile(r"\blimit:? ?(\d[\d,]{0,17})\b.{0,80}?\brequested:? ?(\d[\d,]{0,17})\b", re.ASCII | re.DOTALL)
_REQUESTED_LIMIT = re.compile(r"\brequested:? ?(\d[\d,]{0,17})\b[^.]{0,80}?\blimit(?: of|:)? ?(\d[\d,]{0,17})\b", re.ASCII)

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s{1,8}|\n{1,8}")
_PREDICATE = re.compile(
    r"\bnot (?:been )?(?:found|supported|available|exist|accessible|deployed|servable|loaded|active)\b"
    r"|\b(?:isn't|aren't) (?:supported|available|found)\b"
    r"|\bunsupported\b|\bunavailable\b|\bdeprecated\b|\bdecommissioned\b|\bdiscontinued\b|\bretired\b"
    r"|\b(?:doesn't|don't) exist\b|\b(?:could|can) ?(?:not|n't) be (?:found|resolved|loaded)\b|\bno longer (?:available|supported|served)\b"
    r"|\bend of (?:its )?life\b|\bend-of-life\b"
)
_NO_MODEL = re.compile(
    r"\b(?:unsupported|unknown|invalid|unavailable|deprecated|unrecogni[sz]ed|non-?existent|no such|not a valid|not a known)"
    r" (?:foundation |base )?model(?! ?(?:output|parameter|input|config|response|setting|param|argument|option)s?)\b"
    r"|\bmodel (?:identifier|id|name) (?:\S{1,120} )?is (?:invalid|not valid|unknown)\b"
    r"|\b(?:cannot|can't|could not|couldn't|unable to|failed to) (?:find|access|resolve|load) (?:the |this |that )?(?:\w{1,20} )?model\b"
    r"|\b(?:not|no|without|don't|doesn't) (?:have )?access to (?:the |this |that )?(?:requested |specified )?model\b"
    r"|\bnot found:? (?:the )?model\b|\bno model (?:found|named|matches)\b|\bno endpoints? (?:found|available) for\b"
    r"|\b(?:doesn't|does not) (?:support the|work with the specified) (?:\w{1,20} )?model\b"
    r"|\bnot a chat model\b|\bmodel is only supported in v1/"
)
_WITH = re.compile(r"\s?(?:with|when|together|in combination|if|alongside|for this|for the)\b")
_PARAMETER = re.compile(
    r"parameters?|params?|arguments?|args?|fields?|propert(?:y|ies)|options?|values?|temperature|top_?[pk]|tools?|functions?|images?|vision|audio"
    r"|videos?|documents?|pdfs?|files?|attachments?|thinking|reasoning|effort|streaming|stream|json|schemas?|logprobs?|stop|sequences?|messages?"
    r"|roles?|content|inputs?|prompts?|context|cach(?:e|ing)|citations?|prefill|penalt(?:y|ies)|seed|verbosity|formats?|modalit(?:y|ies)|headers?"
    r"|features?|grammars?|tokens?|calling|outputs?|search|voices?|n"
)
_SNAKE = re.compile(r"[a-z]{1,30}(?:_[a-z]{1,30}){1,5}(?:[.\[]\S{0,60})?")
