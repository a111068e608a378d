"""What of its machine the page alone needs."""

import os
from pathlib import Path

import pytest

from balcony import system


def test_temporary_files_are_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert system.temporary_folder("page").name == f"page-{os.getuid()}"
    monkeypatch.delattr(os, "getuid")  # as on Windows
    assert system.temporary_folder("page").name == "page"


@pytest.mark.parametrize(
    ("groups", "files", "limits"),
    [
        ("0::/box\n", {"box/memory.max": "700", "memory.max": "max"}, [700]),
        ("4:memory:/a/b\n0::/\n", {"memory/a/memory.limit_in_bytes": "50", "memory.max": "60"}, [50, 60]),
        ("0::/\n", {}, []),
        (None, {"memory.max": "60"}, []),
    ],
)
def test_the_containers_limit_counts(tmp_path: Path, groups: str | None, files: dict, limits: list[int]) -> None:
    written = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in (written | ({"proc/self/cgroup": groups} if groups else {})).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert system.container_limits(tmp_path) == limits


def test_a_share_of_the_containers_memory_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "container_limits", lambda: [10 * 2**20])
    assert system.usable_memory("cpu") == 6 * 2**20
