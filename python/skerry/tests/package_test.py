"""What `pip install` puts into an environment."""

import ast
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import skerry


def files():
    return [str(path) for path in importlib.metadata.files("skerry")]


def test_the_package_has_types_and_the_command_and_neither_tests_nor_sources(command):
    found = files()
    for wanted in ("skerry/py.typed", "skerry/_core.pyi", "skerry/client/__init__.py", "skerry/vllm/__init__.py"):
        assert wanted in found
    assert any(path.endswith("bin/skerry") for path in found)
    assert not [path for path in found if "/tests/" in path or path.endswith((".cc", ".h", ".txt.in", ".a", ".cmake"))]
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.split()[-1] == skerry.__version__ == importlib.metadata.version("skerry")


def test_the_stubs_know_every_native_name():
    from skerry import _core

    stubs = ast.parse(Path(_core.__file__).with_name("_core.pyi").read_text())
    stubbed = {node.name for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    overloaded = {node.name for node in ast.walk(stubs) if isinstance(node, ast.FunctionDef)}
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public <= stubbed
    for name in public:
        native = getattr(_core, name)
        if isinstance(native, type):
            assert {method for method in vars(native) if not method.startswith("_")} <= overloaded, name


def test_everything_public_says_what_it_is():
    for name in skerry.__all__:
        public = getattr(skerry, name)
        assert public.__doc__, name
        if isinstance(public, type) and not issubclass(public, Exception):
            for method, value in vars(public).items():
                assert method.startswith("_") or not callable(value) or value.__doc__, f"{name}.{method}"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        skerry.Nothing
    assert set(skerry.__all__) <= set(dir(skerry))


@pytest.mark.parametrize(
    "statement, unwanted",
    [
        ("import skerry, skerry.errors, skerry.client", {"numpy", "torch", "httpx", "skerry._core"}),
        ("import skerry; skerry.Checkpoint, skerry.Board, skerry.diff", {"torch", "transformers", "httpx", "vllm"}),
    ],
)
def test_what_is_not_used_is_not_imported(statement, unwanted):
    program = f"{statement}\nimport sys; print(*sorted(sys.modules))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not unwanted & set(said)
