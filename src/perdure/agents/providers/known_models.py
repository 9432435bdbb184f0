"""What is known of the models of OpenAI and Anthropic by their names: context windows and lengths of answers.

The first beginning that fits a name speaks. A model that is not listed works with the defaults: its window is
learnt, and `model.context` says it.
"""

from __future__ import annotations

import re

ANTHROPIC_LONG = r"claude-(fable-5|mythos-5|opus-4-[678]|opus-5|sonnet-4-6|sonnet-5|haiku-5-5)"

# Beginnings of names, each with the context window in tokens.
CONTEXT_WINDOWS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        (ANTHROPIC_LONG, 1_000_000),
        (r"claude-", 200_000),
        (r"gpt-5[.-][45]-(mini|nano)|gpt-5[.-]3-codex", 400_000),
        (r"gpt-5[.-]3\b", 128_000),
        (r"gpt-5[.-]5\b", 1_000_000),
        (r"gpt-5[.-][46]\b|gpt-6", 1_050_000),
        (r"gpt-5", 400_000),
        (r"gpt-4\.1", 1_000_000),
        (r"gpt-4-32k", 32_000),
        (r"gpt-4(-0314|-0613)?$", 8_192),
        (r"gpt-3\.?5-turbo", 16_385),
        (r"gpt-oss", 131_072),
        (r"o1-(mini|preview)", 128_000),
        (r"o1|o3|o4|codex-mini", 200_000),
    )
)

# Beginnings of names, each with the longest answer that Anthropic's model may be asked for, in tokens. The older
# models refuse a request that leaves less room than that, so they are asked for short answers.
ANTHROPIC_ANSWER_TOKENS: tuple[tuple[re.Pattern[str], int], ...] = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
        (ANTHROPIC_LONG, 128_000),
        (r"claude-(haiku|opus|sonnet)-4-5", 64_000),
        (r"claude-(3|4-|opus-4-[012]|opus-4@|opus-4$|sonnet-4-[02]|sonnet-4@|sonnet-4$)", 4_096),
    )
)
DEFAULT_ANSWER_TOKENS = 16_384  # of other models with Anthropic's API


def known_context_window(model: str) -> int | None:
    """The context window of a model, in tokens; None: it is not known."""
    return next((tokens for pattern, tokens in CONTEXT_WINDOWS if pattern.match(model)), None)


def anthropic_answer_tokens(model: str) -> int:
    """How long an answer Anthropic's model is asked for, in tokens."""
    return next(
        (tokens for pattern, tokens in ANTHROPIC_ANSWER_TOKENS if pattern.match(model)), DEFAULT_ANSWER_TOKENS
    )
