"""Exceptions: one for each code of the C++ libraries, with fields, through pickle and copy."""

import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skerry
from skerry import errors

RAISED = [
    skerry.Invalid,
    skerry.NotFound,
    skerry.Conflict,
    skerry.Mismatch,
    skerry.Corrupt,
    skerry.Unsupported,
    skerry.NoSpace,
    skerry.Unavailable,
    skerry.Refused,
    skerry.Interrupted,
]


@pytest.mark.parametrize("kind", RAISED)
def test_an_error_survives_pickle_and_copy_with_its_fields(kind):
    error = errors.of_code(kind.code, "head: version 7, but the board has 8")
    error.attempt = 3
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind and isinstance(again, skerry.SkerryError)
        assert (again.code, again.message, str(again), again.args) == (
            error.code,
            error.message,
            str(error),
            error.args,
        )
        assert again.attempt == 3


def test_an_error_comes_back_from_another_process(tmp_path):
    program = (
        "import pickle, sys, skerry\n"
        "try: skerry.Checkpoint(sys.argv[1])\n"
        "except skerry.SkerryError as error: sys.stdout.buffer.write(pickle.dumps(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "missing"], capture_output=True, check=True)
    error = pickle.loads(done.stdout)
    assert type(error) is skerry.NotFound and error.code == "not_found" and "missing" in error.message


def test_every_code_of_the_libraries_has_a_class():
    source = Path(__file__).parents[3] / "src" / "skerry" / "base" / "result.cc"
    codes = re.findall(r'return "([a-z_]+)";', source.read_text())
    assert codes[-1] == "unknown"
    assert {kind.code for kind in RAISED} == set(codes[:-1])


def test_errors_are_also_what_python_calls_them():
    assert issubclass(skerry.Invalid, ValueError) and issubclass(skerry.NotFound, LookupError)
    with pytest.raises(ValueError):
        skerry.Checkpoint(None)
    with pytest.raises(LookupError):
        skerry.Checkpoint("/nowhere/at/all")


def test_errors_of_the_client_have_the_same_base():
    from skerry import client

    assert client.SkerryError is skerry.SkerryError
    assert issubclass(client.AgentUnreachable, skerry.SkerryError)
    assert client.AgentUnreachable("x").attempts == 1
    failed = client.RequestFailed("no", status=500)
    assert failed.message == "no" and str(failed) == "500: no" and failed.code == ""
    assert pickle.loads(pickle.dumps(failed)).message == "no"


def test_a_path_that_is_no_utf8_is_told_like_any_other(tmp_path):
    with pytest.raises(skerry.NotFound, match=r"\\xff does not exist"):
        skerry.Checkpoint(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
