"""Scenes of crashes during a recovery, and during the recovery of that: gateways were killed before it begins."""

from __future__ import annotations

from support.sweeping import World
from support.sweeps.answers import Parts, Steps
from support.sweeps.processes import Told
from support.sweeps.tools import Approval, Command

IN_A_STEP = "SELECT 1 FROM journal WHERE kind = 'tool_started'"
ASKED = "SELECT 1 FROM turns WHERE state = 'waiting'"
PART_SENT = "SELECT 1 FROM outbox WHERE state = 'sending' AND part = 1"
GOING_ON = "SELECT 1 FROM turns WHERE state = 'running' AND attempt = 2"


class Recovery(Steps):
    name = "recovery"
    before = (IN_A_STEP,)


class RecoveryAgain(Steps):
    name = "recovery of the recovery"
    before = (IN_A_STEP, GOING_ON)


class CommandAgain(Command):
    name = "shell, recovered"
    before = (IN_A_STEP,)


class ApprovalAgain(Approval):
    name = "approval, recovered"
    before = (ASKED,)


class PartsAgain(Parts):
    name = "parts, recovered"
    before = (PART_SENT,)


class ToldAgain(Told):
    name = "process, recovered"
    before = (IN_A_STEP,)


SCENES: list[type[World]] = [Recovery, RecoveryAgain, CommandAgain, ApprovalAgain, PartsAgain, ToldAgain]
