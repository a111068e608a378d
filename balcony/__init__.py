"""The page with its tabs: the only package that imports gradio."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_core.runs.service import TrainingService


def launch(service: "TrainingService", **options: Any) -> tuple[Any, str, str]:
    """Build the page and serve it; see `balcony.app.launch`, which is imported at the call: gradio takes seconds."""
    from balcony.app import launch as launch_app

    return launch_app(service, **options)
