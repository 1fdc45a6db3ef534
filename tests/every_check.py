"""All health checks of hypothesis, for tests that draw rarely or slowly on purpose."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck

EVERY_CHECK: Any = list(HealthCheck)  # a type checker does not know that its metaclass makes an enumeration
