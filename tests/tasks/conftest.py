"""A task's file as a test writes it, read."""

import pytest

from bert_core.tasks.examples import load_task


@pytest.fixture
def read(tmp_path):
    def read(text, task="text-classification", name="task.txt", **options):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return load_task(path, task, **options)

    return read
