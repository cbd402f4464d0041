from __future__ import annotations

from pathlib import Path

from penstock.cli.test import watch_files


def test_files_that_are_saved_made_or_removed_are_handed_over_once(tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("a")
    acts: list[frozenset[Path]] = []
    saves = [lambda: None, lambda: first.write_text("ab"), lambda: second.write_text("c"), first.unlink, lambda: None]

    def wait() -> bool:
        if not saves:
            return False
        saves.pop(0)()
        return True

    watch_files(lambda: [first, second], acts.append, wait)

    assert acts == [{first}, {second}, {first}]


def test_a_file_that_is_saved_meanwhile_is_handed_over_next(tmp_path: Path):
    file = tmp_path / "file"
    file.write_text("a")
    acts: list[frozenset[Path]] = []
    saves = [lambda: file.write_text("ab"), lambda: None, lambda: None]

    def act(saved: frozenset[Path]) -> None:
        acts.append(saved)
        if len(acts) == 1:
            file.write_text("abc")

    def wait() -> bool:
        return bool(saves) and saves.pop(0)() is not False

    watch_files(lambda: [file], act, wait)

    assert acts == [{file}, {file}]
