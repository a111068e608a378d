"""The page: its tabs, what serves it, and the models that come with it."""

import dataclasses
import functools
import gc
import importlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from balcony.gradio_gaps import NO_LOOK_AT_ITSELF, Sessions, poll_seldom

# It sets what gradio reads when it is imported, so it comes first.
# isort: split

import gradio as gr
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware

from balcony.classroom.tab import Classroom
from balcony.frame.answers import MOST_THREADS, Answers
from balcony.frame.page import open_page
from balcony.lessons.lesson_bar import lesson_bar, load_lesson
from balcony.server.endpoints import endpoints
from balcony.server.guard import Guard
from balcony.server.news import health_route
from balcony.server.probe_lock import probe_lock
from balcony.server.served import Documents, links, script_route
from balcony.server.workspaces import LEASE_SECONDS, Workspaces
from balcony.theme import SANDBOXED, head, plotly_script, theme
from balcony.views import view
from bert_core.config import ASSETS, CHECKPOINTS, HOME
from bert_core.runs.recipe import DEFAULT_RECIPE, load_recipe
from bert_core.runs.service import TrainingService
from bert_core.show import asset
from bert_core.storage.checkpoint import Checkpoint, load_checkpoint

# The folders of the tabs, in their order on the page; each has its record in `tab.py`.
TABS = (
    "train",
    "batch",
    "compare",
    "masked_words",
    "next_sentence",
    "attention",
    "words_in_context",
    "finetune",
    "step_by_step",
    "models",
)
CLASS = "classroom"
ICON = ASSETS / "icon.png"  # drawn from icon.svg
SHIPPED = tuple(CHECKPOINTS / name for name in ("romeo-juliet", "english-mini", "chinese-poems"))
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MOST_SESSIONS = 500
MOST_QUEUED = 256  # requests of programs


def build(
    service: TrainingService,
    answers: Answers | None = None,
    lesson: dict[str, Any] | None = None,
    *,
    is_class: bool = False,
) -> gr.Blocks:
    """The whole page for one training service. answers: what it may ask. lesson: to begin with. is_class: with the bar
    and the tab of a class."""
    answers = answers or Answers(open_workspaces(service))
    with gr.Blocks(title="Balcony", analytics_enabled=False, delete_cache=(3600, 24 * 3600)) as demo:
        demo.queue(api_open=False, max_size=MOST_QUEUED)  # first: Gradio makes its routes anew, for all that is there
        poll_seldom(demo)
        shown = [importlib.import_module(f"balcony.{folder}.tab").TAB for folder in (*TABS, *[CLASS][:is_class])]
        page = open_page(demo, answers, shown)
        lesson_bar(page, lesson)
        if is_class:
            view("classroom/bar", elem_id="class-bar")
        page.lay_out()
        endpoints(demo, answers.workspaces)
    return demo


def open_workspaces(
    service: TrainingService, *, shipped: Sequence[Path] = SHIPPED, lease: float | None = None
) -> Workspaces:
    """Workspaces whose visitors have the models of the folders `shipped`. lease: see `Workspaces`."""
    models = {folder.name: functools.partial(_load_shipped, folder) for folder in shipped}
    return Workspaces(service, models, lease=lease)


def _load_shipped(folder: Path) -> Checkpoint:
    """The model, named by the path of its folder from the repository's root."""
    path = folder.relative_to(HOME) if folder.is_relative_to(HOME) else folder
    return dataclasses.replace(load_checkpoint(folder), name=path.as_posix())


def launch(
    service: TrainingService,
    *,
    shipped: Sequence[Path] = SHIPPED,
    lease: float | None = None,
    keep: Path | None = None,
    lesson: Path | None = None,
    teacher: str | None = None,
    allowed: Sequence[str] = (),
    prevent_thread_lock: bool = False,
    **options: Any,
) -> tuple[Any, str, str]:
    """Build the page and serve it until Ctrl-C. Takes the options of `gradio.Blocks.launch` and returns its result.

    lease: seconds without a request after which a visitor's runs are paused, and later freed; None takes LEASE_SECONDS
    on a shared machine and no lease otherwise. keep: a folder from which the runs of visitors can be continued.
    lesson: a file with a lesson that the page begins with; raises BertCoreError where it cannot be read.
    teacher: the teacher's token of a class, which gets a board, and whose addresses are printed; None without a class.
    allowed: names by which a proxy on this machine serves the page to others.
    prevent_thread_lock: serve in the background and return at once.
    """
    begin_with = load_lesson(lesson) if lesson else None
    host = options.get("server_name") or LOOPBACK[0]
    is_open = host not in LOOPBACK or options.get("share") or "SPACE_ID" in os.environ
    shared_lease = LEASE_SECONDS if is_open or allowed else None
    workspaces = open_workspaces(service, shipped=shipped, lease=lease or shared_lease)
    if keep is not None:
        workspaces.keep(keep)
    probe_lock.limit_seconds = service.limits.probe_seconds
    gr.set_static_paths([plotly_script()])
    answers = Answers(workspaces)
    demo = build(service, answers, begin_with, is_class=teacher is not None)
    classroom = None if teacher is None else Classroom(answers, teacher)
    routes = [answers.route(), health_route(workspaces), script_route()]
    layers = middleware(service, None if is_open else (*LOOPBACK, *allowed))
    served = demo.launch(
        theme=theme(),
        css=asset("css/balcony.css") + (asset("css/class.css") if classroom else ""),
        head=head(),
        run_history=False,
        ssr_mode=False,
        footer_links=[],
        pwa=True,
        favicon_path=ICON,
        state_session_capacity=MOST_SESSIONS,
        max_file_size=service.limits.upload_bytes,
        max_threads=MOST_THREADS,
        prevent_thread_lock=True,
        app_kwargs={
            "routes": routes,
            "middleware": layers,
            "openapi_url": None,
        },
        **NO_LOOK_AT_ITSELF,
        **options,
    )
    Sessions.serve(served[0], demo)
    if classroom:
        invite(classroom, host, demo, options.get("root_path"))
    warm_up(service)
    if not prevent_thread_lock:
        wait(demo, workspaces)
    return served


def wait(demo: gr.Blocks, workspaces: Workspaces) -> None:
    """Wait until the server has ended, or for an interrupt."""
    gc.freeze()  # a collection that visits all objects of PyTorch and Gradio stops every thread for 0.2 s
    gc.enable()
    try:
        while demo.is_running:
            time.sleep(0.2)
    finally:  # an interrupt
        if workspaces.kept is not None:
            workspaces.kept.close()


def middleware(service: TrainingService, hosts: Sequence[str] | None) -> list[Middleware]:
    """What a request passes before Gradio has it. hosts: the names by which the page may be asked for; None for any."""
    layers = [Middleware(Guard, limits=service.limits, hosts=hosts), Middleware(Documents, links=SANDBOXED + links())]
    if hosts is not None:  # else another site could reach this machine by a name of its own
        layers.insert(0, Middleware(TrustedHostMiddleware, allowed_hosts=[*hosts, "[::1]"], www_redirect=False))
    return layers


def invite(classroom: Classroom, host: str, demo: gr.Blocks, root_path: str | None) -> None:
    """Print the addresses of a class, and let its board show the one to join. root_path: where a proxy serves it."""
    # Imported here, so that a page without a class does not load the library of its QR code.
    from balcony.classroom.address import join_address, qr_code, welcome

    proxied = f"{root_path}/" if root_path and root_path.startswith("http") else None
    address = join_address(host, demo.server_port, proxied or demo.share_url)
    classroom.join = {"address": address, "code": qr_code(address)}
    print(welcome(address, f"{address}#teacher={classroom.token}"), flush=True)


def warm_up(service: TrainingService) -> None:
    """Warm up PyTorch with one throwaway step: the first one takes 0.2 s longer, and Start should not wait."""
    service.start(load_recipe(DEFAULT_RECIPE).override({"training.steps": 1}))
