"""Messages between Python and C: each reads what the other packs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy
import pytest
from conftest import TREE

import pvm

PEER = Path(__file__).with_name("peer.c")


def library_folder() -> Path:
    """Where the C library is; a test is skipped without it."""
    library = Path(os.environ.get("PVM_TEST_BIN") or TREE / "target/debug")
    if not (library / "libpvm3.so").is_file():
        assert os.environ.get("PVM_TEST_FULL") != "1", f"{library}/libpvm3.so is missing: cargo build -p libpvm-c"
        pytest.skip("libpvm3.so is not built: cargo build -p libpvm-c")
    return library


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    library = library_folder()
    name = tmp_path_factory.mktemp("c") / "peer"
    include = TREE / "libpvm/c/include"
    # Of the name that the program looks for.
    (name.parent / "libpvm3.so.3").symlink_to(library / "libpvm3.so")
    command = ["cc", "-Wall", "-Werror", "-o", name, PEER, f"-I{include}", name.parent / "libpvm3.so.3", f"-Wl,-rpath,{name.parent}"]
    subprocess.run(command, check=True)
    return name


@pytest.mark.parametrize("raw", [False, True], ids=["default", "raw"])
def test_c_and_python_read_each_other(task, peer, raw):
    [tid] = task.spawn(peer, ["raw" if raw else "default"])
    many = numpy.linspace(0, 1, 50_000)
    packer = pvm.Packer(raw=raw).int([1, -2, 2**31 - 1]).double(many).float(0.5).short([-3, 4]).ushort(65535)
    packer.uint(2**32 - 1).long([-(2**62), 7]).ulong(2**63).byte(b"bytes").str("a string").double(numpy.array([1 + 2j]).view(float))
    task.send_packed(tid, packer, 4)
    message = task.recv_message(tid, 5, timeout=60)
    assert message.int(3).tolist() == [1, -2, 2**31 - 1]
    numpy.testing.assert_array_equal(numpy.asarray(message.double(50_000)), 2 * many)
    assert (message.float(), message.short(2).tolist(), message.ushort(), message.uint()) == (0.5, [-3, 4], 65535, 2**32 - 1)
    assert (message.long(2).tolist(), message.ulong(), bytes(message.byte(5))) == ([-(2**62), 7], 2**63, b"bytes")
    assert message.str() == "a string" and message.double(2).tolist() == [1.0, 2.0]
    task.send_buffer(tid, numpy.arange(1000, dtype="i4"), 6)
    room = numpy.zeros(1000, "i4")
    assert task.recv_into(room, tid, 7, timeout=60) == 1000
    numpy.testing.assert_array_equal(room, -numpy.arange(1000))
