"""Directory trees as bytes, and back, in place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llft.errors import PeerError, UnsupportedOperationError
from llft.runtime.state.tree import pack, put_back


def make(top: Path) -> Path:
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "deep").write_bytes(b"deep" * 1000)
    (top / "a.b").write_bytes(b"")
    (top / "link").symlink_to("a/b/deep")
    (top / "run").write_bytes(b"#!")
    (top / "run").chmod(0o750)
    return top


def contents(top: Path) -> dict[str, object]:
    return {
        str(path.relative_to(top)): os.readlink(path)
        if path.is_symlink()
        else (path.stat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(top.rglob("*"))
    }


def test_it_is_put_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    one, other = make(tmp_path / "one"), tmp_path / "other"
    (other / "link").mkdir()
    (other / "link" / "in the way").write_bytes(b"x")
    (other / "a").write_bytes(b"a file where a directory is to be")
    (other / "more").mkdir()
    put_back(str(other), pack(str(one)))
    assert contents(other) == contents(one)
    assert pack(str(other)) == pack(str(one))


def test_a_file_that_is_there_stays_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"as it was")
    packed = pack(str(tmp_path))
    with open(file, "r+b", buffering=0) as opened:
        opened.write(b"as it was written later")
        put_back(str(tmp_path), packed)
        opened.seek(0)
        assert opened.read() == b"as it was"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnsupportedOperationError, match="not_a_file"):
        pack(str(tmp_path))


@given(st.binary(min_size=1, max_size=60))
def test_bytes_that_are_no_tree_are_refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        put_back("/nowhere", b"\x01\x00\x00\x02\x00\xff" + data)


def test_nothing_is_put_beside_the_tree(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "xxx").write_bytes(b"x")
    packed = pack(str(tmp_path / "top")).replace(b"xxx", b"../")
    with pytest.raises(PeerError, match="tree_malformed"):
        put_back(str(tmp_path / "top"), packed)


def test_nothing_is_put_where_a_link_leads(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    links, files = tmp_path / "links", tmp_path / "files"
    (files / "way").mkdir(parents=True)
    (files / "way" / "in").write_bytes(b"x")
    links.mkdir()
    (links / "way").symlink_to(outside)
    of_files = pack(str(files))
    child = of_files[of_files.index(b"way/in") - 13 :]
    with pytest.raises(PeerError, match="tree_malformed"):
        put_back(str(links), pack(str(links)) + child)
    assert list(outside.iterdir()) == []
