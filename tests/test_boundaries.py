"""The imports of the house, read from its source and checked in a fresh process."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE, PAGE = (sorted((ROOT / package).rglob("*.py")) for package in ("bert_core", "balcony"))
PROGRAM = [*CORE, *PAGE, *sorted((ROOT / "benchmarks").rglob("*.py")), ROOT / "app.py"]

# A module imports from earlier lines and from its own folder. Folders on the same line do not import each other.
WINGS = {
    "bert_core": [
        {"errors"},
        {"config"},
        {"device", "model"},
        {"data"},
        {"training", "storage"},
        {"probes", "tasks"},
        {"runs"},
        {"show"},
        {"__main__", "__init__"},
    ],
    "balcony": [
        {"system"},
        {"gradio_gaps", "handlers", "views"},
        {"server"},
        {"frame"},
        {"parts", "lessons"},
        {"classroom"},
        {"theme"},
        {path.parent.name for path in PAGE if path.name == "tab.py"} - {"frame", "classroom", "compare", "finetune"},
        {"compare"},
        {"finetune"},
        {"app"},
        {"__init__"},
        {"__main__"},
    ],
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def wing_of(module: str) -> str:
    """The folder or the root's own file in which a module lies; the package itself is its `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, at its top or in a function; for `from a import b` both `a` and `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def imports_in_the_house() -> dict[str, set[str]]:
    """For each module of both packages, the modules of both packages that it imports."""
    modules = {module_of(path): path for path in (*CORE, *PAGE)}
    return {name: imports_of(path) & {*modules, *WINGS} for name, path in modules.items()}


def libraries_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports_of(path)}


def test_every_file_has_a_line_in_the_table():
    for package, paths in (("bert_core", CORE), ("balcony", PAGE)):
        assert {wing_of(module_of(path)) for path in paths} == set().union(*WINGS[package])


def test_no_import_goes_upward():
    lines = {(package, wing): i for package in WINGS for i, line in enumerate(WINGS[package]) for wing in line}
    upward = []
    for module, imported in imports_in_the_house().items():
        package, wing = module.split(".")[0], wing_of(module)
        for other in imported:
            other_package, other_wing = other.split(".")[0], wing_of(other)
            if package == other_package:
                is_allowed = wing == other_wing or lines[package, other_wing] < lines[package, wing]
            else:
                is_allowed = package == "balcony" and other != "bert_core"  # `bert_core` itself is for programs outside
            if not is_allowed:
                upward.append(f"{module} imports {other}")
    assert upward == []


def test_no_circle_of_files():
    left = {module: imported - WINGS.keys() for module, imported in imports_in_the_house().items()}
    while free := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in free}
    assert left == {}


def test_folders_describe_themselves():
    for package in WINGS:
        for path in (ROOT / package).glob("*/__init__.py"):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path.parent.name


@pytest.mark.parametrize(
    ("libraries", "allowed"),
    [
        ({"threading", "concurrent", "multiprocessing", "asyncio", "_thread"}, {"runs"}),
        ({"plotly", "gradio", "balcony", "app"}, set()),
        ({"huggingface_hub"}, {"storage"}),
        ({"transformers", "requests", "httpx", "urllib", "http", "socket"}, set()),
    ],
)
def test_the_core_uses_some_libraries_in_one_wing_or_not_at_all(libraries, allowed):
    assert {wing_of(module_of(path)) for path in CORE if libraries_of(path) & libraries} <= allowed


def test_only_the_page_imports_gradio():
    assert [path.name for path in PROGRAM if path not in PAGE and "gradio" in libraries_of(path)] == []


def private_names(path: Path) -> set[str]:
    """Names with one underscore at their beginning that a file takes from elsewhere."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found, own = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.Attribute):
            is_own = ast.unparse(node.value) in ("self", "cls", "super()")
            (own if is_own else found).add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr"):
            found |= {
                each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("bert_core"):
            found |= {part for alias in node.names for part in f"{node.module}.{alias.name}".split(".")}
        elif isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
    return {name for name in found - own if name.startswith("_") and not name.startswith("__")}


def test_the_core_uses_no_private_name_of_a_library():
    assert set().union(*map(private_names, CORE)) == set()


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


@pytest.fixture(scope="module")
def fresh_process() -> dict[str, Any]:
    """What a new process has loaded after a training step and after it has imported the whole core."""
    modules = [module_of(path) for path in CORE if path.stem not in ("__main__", "__init__")]
    program = f"""
import importlib, json, sys
from bert_core import load_recipe, prepare
next(prepare(load_recipe("romeo-juliet")).trainer())
has_compiler = bool({{"torch._dynamo", "sympy"}} & sys.modules.keys())
for name in {modules}:
    importlib.import_module(name)
print(json.dumps({{"has_compiler": has_compiler, "libraries": sorted({{name.split(".")[0] for name in sys.modules}})}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    return json.loads(done.stdout)


def test_the_core_loads_neither_the_page_nor_its_libraries(fresh_process):
    unwanted = {"gradio", "plotly", "transformers", "huggingface_hub", "pandas", "balcony"}
    assert "bert_core" in fresh_process["libraries"]
    assert unwanted & set(fresh_process["libraries"]) == set()


def test_the_first_training_step_imports_no_compiler(fresh_process):
    assert not fresh_process["has_compiler"]
