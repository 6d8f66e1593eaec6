"""Settings of a replay that knows the rules of the log beforehand, as if they had been known since they were true."""

from __future__ import annotations

import structlog

from app.core.settings import ControlSettings, Settings
from app.kafka import rule_topic
from app.versions import replay_manifest
from app.versions.pinned_configuration import model_settings, reading
from models.rules.hindsight import rules_known_beforehand


def with_known_rules(settings: Settings) -> Settings:
    """Settings with the rules that the topic `rules` has now; records before its end are not applied once more.

    A replay of this version that was started before keeps the rules that it began with. Raises InputError where there is no such
    topic, ServiceUnavailable where Kafka does not answer.
    """
    earlier = replay_manifest.read(settings)
    if earlier is not None and earlier.configuration.get("control", {}).get("rules_from"):
        with reading(settings.version):
            return settings.model_copy(update={"control": model_settings(earlier.configuration)["control"]})
    topic = rule_topic.read(settings)
    rules = rules_known_beforehand(settings.control.rules, topic.placed, topic.window_ms, rule_topic.log_refused)
    structlog.get_logger().info("rules as known now", rules=len(rules), up_to_offset=topic.end)
    return settings.model_copy(update={"control": ControlSettings(rules=rules, rules_from=topic.end)})
