"""Every sentence that people or models see from us, in one place."""

from perdure.core.notes.agents import *
from perdure.core.notes.commands import *
from perdure.core.notes.danger import *
from perdure.core.notes.files import *
from perdure.core.notes.kept import *
from perdure.core.notes.models import *
from perdure.core.notes.offline import *
from perdure.core.notes.operators import *
from perdure.core.notes.people import *
from perdure.core.notes.processes import *
from perdure.core.notes.providers import *
from perdure.core.notes.queueing import *
from perdure.core.notes.stopping import *
from perdure.core.notes.telegram import *
from perdure.core.notes.tools import *
from perdure.core.notes.web import *
from perdure.core.notes.words import *
from perdure.core.notes.work import *
