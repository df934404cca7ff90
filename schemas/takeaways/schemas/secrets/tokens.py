"""Tokens that say by their own first letters what they are.

`(?<![A-Za-z0-9_])` keeps ordinary words out: `risk-based` holds `sk-`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from takeaways.schemas.secrets.spans import Found, places

_EDGE: Final = r"(?<![A-Za-z0-9_])"
_EDGE_OF_RUN: Final = r"(?<![A-Za-z0-9_-])"  # where a run of any length may follow: each run is tried once
_DASHED: Final = r"[A-Za-z0-9_-]"
_LONG_WORD: Final = re.compile(r"\S{16}")
_WITH_A_DIGIT: Final = r"(?=[A-Za-z_-]{0,300}\d)"


@dataclass(frozen=True, slots=True)
class _Token:
    """`pattern` is tried wherever one of `beginnings` stands: a text without one costs a look for each.

    A group named `secret` is what is masked, else all that was found.
    """

    kind: str
    beginnings: tuple[str, ...]
    pattern: re.Pattern[str]

    @property
    def group(self) -> str | int:
        return "secret" if "secret" in self.pattern.groupindex else 0


def _token(kind: str, beginnings: str, pattern: str) -> _Token:
    return _Token(kind, tuple(beginnings.split()), re.compile(pattern, re.ASCII))


_TOKENS: Final = (
    _token(
        "AWS access key", "AKIA ASIA AROA AIDA ABIA ACCA", rf"{_EDGE}A[A-Z]{{3}}[A-Z0-9]{{16}}(?![A-Za-z0-9])"
    ),
    _token("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_EDGE}gh[pousr]_[A-Za-z0-9]{{30,255}}"),
    _token("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{20,255}"),
    _token(
        "GitLab token",
        "glpat- gldt- glptt- glrt- glcbt- gloas- glsoat- glffct- glimt- glagent-",
        rf"{_EDGE}gl[a-z]{{2,5}}-[A-Za-z0-9_.=-]{{20,300}}",
    ),
    _token("Slack token", "xox", rf"{_EDGE}xox[abceoprs](?:\.xox[bp])?-[A-Za-z0-9%-]{{10,400}}"),
    _token("Slack token", "xapp-", rf"{_EDGE}xapp-\d-[A-Za-z0-9-]{{10,400}}"),
    _token(
        "Slack webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{8,300})",
    ),
    _token("Discord webhook", "/api/webhooks/", r"/api/webhooks/(?P<secret>\d{10,25}/[A-Za-z0-9_-]{20,200})"),
    _token("Anthropic key", "sk-ant-", rf"{_EDGE}sk-ant-{_WITH_A_DIGIT}{_DASHED}{{16,300}}"),
    _token("OpenAI key", "sk-", rf"{_EDGE}sk-(?!ant-){_WITH_A_DIGIT}{_DASHED}{{20,300}}"),
    _token(
        "Stripe key",
        "sk_live_ sk_test_ rk_live_ rk_test_ pk_live_ pk_test_ whsec_",
        rf"{_EDGE}(?:[srp]k_(?:live|test)|whsec)_[A-Za-z0-9+/=]{{16,250}}",
    ),
    _token("Google key", "AIza", rf"{_EDGE}AIza{_DASHED}{{35,}}"),
    _token("Google token", "ya29.", rf"{_EDGE}ya29\.{_DASHED}{{20,500}}"),
    _token("Google token", "GOCSPX-", rf"GOCSPX-{_DASHED}{{20,100}}"),
    _token(
        "JSON web token", "eyJ", rf"{_EDGE_OF_RUN}eyJ{_DASHED}{{6,}}\.eyJ{_DASHED}{{6,}}(?:\.{_DASHED}*)?"
    ),
    _token(
        "JSON web token",
        "eyJ",
        rf"{_EDGE_OF_RUN}eyJ{_DASHED}{{10,}}\.{_DASHED}*\.{_DASHED}{{8,}}\.{_DASHED}+\.{_DASHED}+",
    ),
    _token("npm token", "npm_", rf"{_EDGE}npm_[A-Za-z0-9]{{30,100}}"),
    _token("PyPI token", "pypi-Ag", rf"{_EDGE}pypi-Ag{_DASHED}{{40,500}}"),
    _token("Hugging Face token", "hf_", rf"{_EDGE}hf_[A-Za-z0-9]{{30,100}}"),
    _token("SendGrid key", "SG.", rf"{_EDGE}SG\.{_DASHED}{{16,32}}\.{_DASHED}{{30,64}}"),
    _token("Twilio key", "SK AC", rf"{_EDGE}(?:SK|AC)[0-9a-f]{{32}}(?![A-Za-z0-9])"),
    _token("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", rf"{_EDGE}do[opr]_v1_[a-f0-9]{{64}}"),
    _token("Databricks token", "dapi", rf"{_EDGE}dapi[a-f0-9]{{32}}(?:-\d)?"),
    _token("Telegram token", ":AA", rf"(?<=\d{{8}}):(?P<secret>AA{_DASHED}{{30,40}})"),
    _token("Shopify token", "shpat_ shpca_ shppa_ shpss_", rf"{_EDGE}shp[a-z]{{2}}_[A-Fa-f0-9]{{32}}"),
    _token("Vault token", "hvs. hvb.", rf"{_EDGE}hv[sb]\.{_DASHED}{{20,300}}"),
    _token("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{40,80}"),
    _token("Atlassian token", "ATATT3", rf"{_EDGE}ATATT3[A-Za-z0-9_=-]{{30,300}}"),
    _token("Notion token", "secret_", rf"{_EDGE}secret_{_WITH_A_DIGIT}[A-Za-z0-9]{{40,50}}(?![A-Za-z0-9])"),
    _token("Zep key", "z_eyJ", rf"{_EDGE}z_eyJ{_DASHED}{{6,}}\.{_DASHED}+(?:\.{_DASHED}*)?"),
    _token("signature", "Signature=", r"Signature=(?P<secret>[0-9a-fA-F]{64})"),
    _token(
        "API key",
        "figd_ lsv2_ m0- gsk_ xai- pplx- lin_api_ ntn_ sbp_ PMAK- NRAK- glsa_ rpa_ r8_ fc- tvly- dp.pt.",
        rf"{_EDGE}[A-Za-z0-9.]{{2,5}}[_.-](?:api_)?{_WITH_A_DIGIT}{_DASHED}{{24,200}}",
    ),
)


def tokens(text: str) -> Iterator[Found]:
    """Every token in `text` that has a beginning of its own."""
    if _LONG_WORD.search(text) is None:  # as in most of what people say
        return
    for token in _TOKENS:
        for beginning in token.beginnings:
            for at in places(text, beginning) if beginning in text else ():
                if found := token.pattern.match(text, at):
                    yield Found(found.start(token.group), found.end(token.group), token.kind)
