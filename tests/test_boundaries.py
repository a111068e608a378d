"""Who may import whom, and what may stand nowhere: read from the source, and seen in a fresh process."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = sorted((ROOT / "bert_core").glob("*.py"))
PROGRAM = [*CORE, *sorted((ROOT / "ui").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py")), ROOT / "app.py"]

# A module of bert_core imports from earlier lines only. `__init__` gathers the public names and is not imported inside.
LAYERS = [
    {"errors"},
    {"config", "foreign_files", "folders", "packing"},
    {"array_files", "sentences"},
    {"corpus", "costs", "model", "foreign_tensors"},
    {"tokenization", "foreign_weights"},
    {"encoded", "checkpoint"},
    {"pretraining_data"},
    {"losses"},
    {"training", "reading", "hub"},
    {"captured"},
    {"distributed"},
    {"recipes", "probing", "word_probes", "pair_probes", "evaluations", "microscope", "snapshots"},
    {"heads", "training_state", "comparisons"},
    {"export"},
    {"run"},
    {"runs"},
    {"__main__", "__init__"},
]
# Numbers and dataclasses of these, no models.
FIGURES_MAY_IMPORT = {"errors", "config"}


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports anywhere in it; for `from a import b` both `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def top_level(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def test_the_core_imports_one_way():
    rank = {name: number for number, names in enumerate(LAYERS) for name in names}
    modules = {path.stem for path in CORE}
    assert modules <= rank.keys() | {"figures"}, "give a new module its place in LAYERS"
    wrong = []
    for path in CORE:
        inside = {name.split(".")[1] for name in imports_of(path) if name.startswith("bert_core.")} & modules
        for name in inside:
            allowed = name in FIGURES_MAY_IMPORT if path.stem == "figures" else rank.get(name, 99) < rank[path.stem]
            if not allowed:
                wrong.append(f"{path.stem} imports {name}")
        assert "bert_core" not in imports_of(path), f"{path.stem} imports the whole package"
        assert not any(name.startswith(".") for name in imports_of(path)), f"{path.stem} imports relatively"
    assert wrong == []


@pytest.mark.parametrize(
    ("libraries", "allowed"),
    [
        ({"threading", "concurrent", "multiprocessing", "asyncio", "_thread"}, {"runs"}),
        ({"plotly"}, {"figures"}),
        ({"gradio", "ui", "app"}, set()),
        ({"huggingface_hub"}, {"hub"}),
        ({"transformers", "requests", "httpx", "urllib", "http", "socket"}, set()),
    ],
)
def test_some_libraries_have_one_room_in_the_core(libraries, allowed):
    assert {path.stem for path in CORE if top_level(path) & libraries} <= allowed


def test_gradio_is_imported_by_the_page_alone():
    outside = [path for path in PROGRAM if path.parent != ROOT / "ui" and (ROOT / "ui") not in path.parents]
    assert [path.name for path in outside if "gradio" in top_level(path)] == []


def test_nothing_unpickles_or_runs_text():
    """No pickle in any disguise, and no eval or exec; `model.eval()` and `re.compile` are other things."""
    libraries = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    attributes = {
        "torch.load",
        "torch.save",
        "torch.jit.load",
        "torch.hub.load",
        "np.load",
        "numpy.load",
        "builtins.eval",
    }
    wrong = []
    for path in PROGRAM:
        imported = imports_of(path)
        wrong += [f"{path.name} imports {name}" for name in imported if name.split(".")[0] in libraries | {"builtins"}]
        wrong += [f"{path.name} imports {name}" for name in imported & attributes]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in {"eval", "exec", "compile", "__import__", "__builtins__"}:
                wrong.append(f"{path.name}:{node.lineno} uses {node.id}")
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in attributes:
                wrong.append(f"{path.name}:{node.lineno} uses {ast.unparse(node)}")
    assert wrong == []


def test_the_core_loads_without_the_page_and_without_pictures():
    names = [f"bert_core.{path.stem}" for path in CORE if path.stem not in ("figures", "__main__", "__init__")]
    program = (
        f"import importlib, sys\nfor name in {['bert_core', *names]}: importlib.import_module(name)\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'gradio', 'plotly', 'transformers', 'huggingface_hub', 'pandas', 'ui'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_a_first_training_step_imports_no_compiler():
    program = (
        "import sys; from bert_core import load_recipe, prepare; next(prepare(load_recipe('romeo-juliet')).trainer()); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
