"""Crash scenarios that begin after earlier crashes: crashes during recoveries, once and twice."""

from __future__ import annotations

from support.crash_scenarios.answers import MultipartAnswer, StepsAnswer
from support.crash_scenarios.processes import ProcessExitReport
from support.crash_scenarios.tools import ApprovedCommand, ForegroundCommand
from support.crash_sweep import CrashScenario

STEP_STARTED_SQL = "SELECT 1 FROM journal WHERE kind = 'tool_started'"
TURN_WAITS_SQL = "SELECT 1 FROM turns WHERE state = 'waiting'"
PART_SENDING_SQL = "SELECT 1 FROM outbox WHERE state = 'sending' AND part = 1"
SECOND_ATTEMPT_SQL = "SELECT 1 FROM turns WHERE state = 'running' AND attempt = 2"


class RecoveryCrash(StepsAnswer):
    name = "recovery"
    earlier_crash_facts = (STEP_STARTED_SQL,)


class RecoveryCrashTwice(StepsAnswer):
    name = "recovery of the recovery"
    earlier_crash_facts = (STEP_STARTED_SQL, SECOND_ATTEMPT_SQL)


class CommandRecovery(ForegroundCommand):
    name = "shell, recovered"
    earlier_crash_facts = (STEP_STARTED_SQL,)


class ApprovalRecovery(ApprovedCommand):
    name = "approval, recovered"
    earlier_crash_facts = (TURN_WAITS_SQL,)


class MultipartRecovery(MultipartAnswer):
    name = "parts, recovered"
    earlier_crash_facts = (PART_SENDING_SQL,)


class ProcessExitRecovery(ProcessExitReport):
    name = "process, recovered"
    earlier_crash_facts = (STEP_STARTED_SQL,)


SCENARIOS: list[type[CrashScenario]] = [
    RecoveryCrash,
    RecoveryCrashTwice,
    CommandRecovery,
    ApprovalRecovery,
    MultipartRecovery,
    ProcessExitRecovery,
]
