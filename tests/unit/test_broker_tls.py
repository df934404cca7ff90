"""What Celery and Flower are told of TLS. The real connections are in tests/integration/test_redis_tls.py."""

from __future__ import annotations

from typing import Any

import pytest

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.pools.broker import configuration, tls
from takeaways.workers.settings import Settings


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h:6379/0", None),
        ("unix:///run/redis.sock", None),
        ("rediss://h:6379/0", {"ssl_cert_reqs": "required"}),
        (
            "rediss://u:p@h/0?ssl_ca_certs=/ca.crt&socket_timeout=3",
            {"ssl_cert_reqs": "required", "ssl_ca_certs": "/ca.crt"},
        ),
        (
            "rediss://h/0?ssl_check_hostname=false",
            {"ssl_cert_reqs": "required", "ssl_check_hostname": False},
        ),
        ("rediss://h/0?ssl_cert_reqs=none", {"ssl_cert_reqs": "none"}),
    ],
)
def test_certificates_are_checked_unless_the_url_says_otherwise(
    url: str, told: dict[str, Any] | None
) -> None:
    """A URL that only says `rediss` must not mean that anybody may pose as the broker."""
    assert tls(url) == told
    assert configuration(Settings(redis_url=url))["broker_use_ssl"] == told


def test_a_url_that_cannot_be_read_is_named_without_its_password() -> None:
    """A wrong port is a mistake of the first day, and the message ends up in logs."""
    with pytest.raises(Misconfigured) as refused:
        tls("rediss://worker:secret@h:port/0")

    assert "secret" not in str(refused.value)
