"""A visitor beside one shipped model."""

import pytest

from bert_core import TrainingService
from ui.server.workspace import Workspace
from ui.server.workspaces import Workspaces


@pytest.fixture
def workspaces(service: TrainingService, tiny_checkpoint) -> Workspaces:
    return Workspaces(service, {"shipped": lambda: tiny_checkpoint})


@pytest.fixture
def space(workspaces: Workspaces) -> Workspace:
    return workspaces.enter(None)
