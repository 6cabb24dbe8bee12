"""The rules of the source tree that no compiler checks."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "skerry"
APPS = ROOT / "apps"
ORDER = ["base", "http", "s3", "tensors", "diff", "patch", "board", "pull", "apply", "engine", "publish", "absorb", "metrics", "relay", "proxy", "gateway", "agent"]
MOST_LINES = 500
MOST_README_LINES = 40

MODULES = sorted(path.name for path in SOURCE.iterdir() if path.is_dir())
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)


def sources(*folders):
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".cc", ".h"))


def relative(path):
    return str(path.relative_to(ROOT))


def test_every_folder_of_the_source_has_its_place_in_the_order():
    assert set(MODULES) <= set(ORDER), "add the new folder to ORDER, where the data passes it"


@pytest.mark.parametrize("module", MODULES)
def test_a_folder_includes_only_base_and_what_stands_before_it(module):
    allowed = {"base", module, *ORDER[: ORDER.index(module)]}
    for path in sources(SOURCE / module):
        for included in INCLUDE.findall(path.read_text()):
            if included.startswith("skerry/"):
                folder = included.split("/")[1]
                if folder == "testing":
                    assert (
                        path.stem.endswith("_test") or "testing" in path.stem
                    ), f"{relative(path)} includes {included}"
                    continue
                assert folder in allowed, f"{relative(path)} includes {included}"


def test_the_source_does_not_include_the_program_or_the_tests():
    for path in sources(SOURCE):
        for included in INCLUDE.findall(path.read_text()):
            assert not included.startswith("apps/") and ".." not in included, f"{relative(path)} includes {included}"
            if included.startswith("tests/") or included.startswith(("gtest", "gmock", "rapidcheck")):
                test_support = re.search(r"_test\.cc$|testing|conformance", path.name)
                assert test_support, f"{relative(path)} includes {included}"


@pytest.mark.parametrize("library, module", [("curl/", "http"), ("boost/", "http"), ("pugixml", "s3"), ("prometheus/", "metrics")])
def test_a_network_library_is_included_by_its_own_folder_only(library, module):
    users = {
        relative(path.parent)
        for path in sources(SOURCE, APPS, ROOT / "tests", ROOT / "bench")
        if any(included.startswith(library) for included in INCLUDE.findall(path.read_text()))
    }
    assert users == {f"src/skerry/{module}"}, "libcurl and Boost belong to http, pugixml to s3, prometheus-cpp to metrics"


def test_what_the_source_includes_by_quotes_exists():
    for path in sources(SOURCE, APPS):
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.M):
            places = (ROOT / "src" / included, path.parent / included, ROOT / included)
            assert any(place.is_file() for place in places), f"{relative(path)} includes {included}"


@pytest.mark.parametrize("module", MODULES)
def test_every_folder_has_a_short_readme(module):
    readme = SOURCE / module / "README.md"
    assert readme.is_file()
    assert len(readme.read_text().splitlines()) <= MOST_README_LINES


def test_readmes_name_files_that_exist():
    for module in MODULES:
        for row in re.findall(r"^\| ([^|]+) \|", (SOURCE / module / "README.md").read_text(), re.M):
            for name in re.findall(r"[a-z0-9_*-]+\.(?:h|cc)\b", row):
                assert list((SOURCE / module).glob(name)), f"{module}/README.md names {name}"


def test_no_file_is_longer_than_one_can_read():
    for path in sources(SOURCE, APPS, ROOT / "tests", ROOT / "bench"):
        lines = len(path.read_text().splitlines())
        assert lines <= MOST_LINES, f"{relative(path)} has {lines} lines"


def test_the_code_is_formatted():
    formatter = shutil.which("clang-format-19")
    assert formatter, "clang-format-19 is not installed: packages.txt names it"
    files = sources(SOURCE, APPS, ROOT / "tests", ROOT / "bench")
    done = subprocess.run([formatter, "--dry-run", "-Werror", *files], capture_output=True, text=True, cwd=ROOT)
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line})
    assert done.returncode == 0, f"run clang-format-19 -i {' '.join(relative(Path(path)) for path in wrong)}"


def test_every_listed_failpoint_is_passed_somewhere_and_every_passed_one_is_listed():
    text = (SOURCE / "base" / "failpoint.cc").read_text()
    block = re.search(r"kNames\[\] = \{(.*?)\n\};", text, re.S).group(1)
    listed = re.findall(r'"([a-z_.]+)"', re.sub(r"//.*", "", block))
    assert len(listed) == len(set(listed))
    passed = set()
    for path in sources(SOURCE):
        if path.name not in ("failpoint.cc", "failpoint.h") and not path.stem.endswith("_test"):
            code = re.sub(r"//.*", "", path.read_text())
            passed |= set(re.findall(r'(?:Failpoint|FailpointErrno|ErrnoOf)\(\s*"([a-z_.]+)"', code))
    assert passed == set(listed)


def test_the_format_document_has_every_section_and_method():
    document = (ROOT / "docs" / "patch-format.md").read_text()
    header = (SOURCE / "patch" / "format.h").read_text()
    rows = re.findall(r"^\| (\d+) \| `?([a-z -]+)`?[,| ]", document, re.M)
    for enum in ("Section", "Method"):
        block = re.search(rf"enum class {enum} : uint8_t \{{(.*?)\}};", header, re.S).group(1)
        constants = re.findall(r"k(\w+) = (\d+)", block)
        assert constants
        for name, number in constants:
            words = re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()
            found = {text.strip() for at, text in rows if at == number}
            assert words in found or words.replace(" ", "-") in found, f"{enum}::k{name} = {number}: {found}"


def test_the_format_document_has_every_dtype():
    document = (ROOT / "docs" / "patch-format.md").read_text()
    enum = re.search(
        r"enum class DType : uint8_t \{(.*?)\};", (SOURCE / "tensors" / "dtype.h").read_text(), re.S
    ).group(1)
    constants, number = [], -1
    for name, value in re.findall(r"\bk(\w+)(?:\s*=\s*(\d+))?\s*,", re.sub(r"//.*", "", enum) + ","):
        number = int(value) if value else number + 1
        constants.append((name, number))
    assert constants
    for name, number in constants:
        cells = re.findall(rf"\| {number} \| ([A-Za-z0-9_]+)", document)
        assert name.lower().replace("_", "") in {
            cell.lower().replace("_", "") for cell in cells
        }, f"k{name} = {number}: {cells}"
