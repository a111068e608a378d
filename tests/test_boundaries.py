"""Who may import whom, and what may stand nowhere: read from the source, and seen in a fresh process."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE, PAGE = (sorted((ROOT / package).rglob("*.py")) for package in ("bert_core", "ui"))
PROGRAM = [*CORE, *PAGE, *sorted((ROOT / "benchmarks").rglob("*.py")), ROOT / "app.py"]

# A wing imports from earlier lines only; inside a wing and in the whole house there is no circle of files. `__init__`
# gathers public names and is not imported inside.
WINGS = {
    "bert_core": [
        {"errors", "config", "costs", "atomic_folder", "packing", "model"},
        {"data"},
        {"training", "storage"},
        {"probes"},
        {"runs"},
        {"__main__", "__init__"},
    ],
    "ui": [
        {"handlers", "views"},
        {"server"},
        {"parts"},
        {"train", "masked_words", "next_sentence", "attention", "models_tab", "words_in_context_tab"},
        {"__init__"},
    ],
}
INDEPENDENT = {"training", "storage"} | WINGS["ui"][3]  # wings of one line that do not know each other
MOST_MODULES, MOST_IN_A_ROOT = 9, 14


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def wing_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


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


def house() -> dict[str, set[str]]:
    """Every module of the core and the page with those of the house that it imports."""
    modules = {module_of(path): path for path in (*CORE, *PAGE)}
    return {name: imports_of(path) & (modules.keys() | {"bert_core", "ui"}) for name, path in modules.items()}


def top_level(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


@pytest.mark.parametrize("package", WINGS)
def test_nothing_imports_upward(package):
    floors = {wing: number for number, wings in enumerate(WINGS[package]) for wing in wings}
    wrong = []
    for module, imported in house().items():
        if not module.startswith(f"{package}."):
            continue
        wing = wing_of(module)
        assert wing in floors, f"give {module} its place in WINGS"
        for other in imported:
            if not other.startswith(package):
                wrong += [f"{module} imports {other}"] if package == "bert_core" or other == "bert_core" else []
                continue
            other_wing = wing_of(other)
            below = floors[other_wing] < floors[wing] or (
                floors[other_wing] == floors[wing] and (wing == other_wing or wing not in INDEPENDENT)
            )
            if not below:
                wrong.append(f"{module} imports {other}")
    assert wrong == []


def test_no_circle_of_files():
    left = {module: imported - {"bert_core", "ui"} for module, imported in house().items()}
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    assert left == {}


def test_no_wing_has_more_rooms_than_a_reader_keeps_in_mind():
    for package in WINGS:
        entries = [
            path for path in (ROOT / package).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
        ]
        assert len(entries) <= MOST_IN_A_ROOT, package
        for wing in filter(Path.is_dir, entries):
            rooms = [path.stem for path in wing.glob("*.py") if path.stem != "__init__"]
            assert len(rooms) <= MOST_MODULES, wing.name
            assert (wing / "__init__.py").read_text(encoding="utf-8").startswith('"""'), f"{wing.name} says what it is"


@pytest.mark.parametrize(
    ("libraries", "allowed"),
    [
        ({"threading", "concurrent", "multiprocessing", "asyncio", "_thread"}, {"runs"}),
        ({"plotly", "gradio", "ui", "app"}, set()),
        ({"huggingface_hub"}, {"storage"}),
        ({"transformers", "requests", "httpx", "urllib", "http", "socket"}, set()),
    ],
)
def test_some_libraries_have_one_wing_in_the_core(libraries, allowed):
    assert {wing_of(module_of(path)) for path in CORE if top_level(path) & libraries} <= allowed


def test_gradio_is_imported_by_the_page_alone():
    assert [path.name for path in PROGRAM if path not in PAGE and "gradio" in top_level(path)] == []


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
    names = [module_of(path) for path in CORE if path.stem not in ("__main__", "__init__")]
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
