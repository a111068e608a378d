"""A visitor beside one shipped model."""

import pytest

from balcony.server.workspace import Workspace
from balcony.server.workspaces import Workspaces
from bert_core import TrainingService


@pytest.fixture
def workspaces(service: TrainingService, tiny_checkpoint) -> Workspaces:
    return Workspaces(service, {"shipped": lambda: tiny_checkpoint})


@pytest.fixture
def space(workspaces: Workspaces) -> Workspace:
    return workspaces.enter(None)
