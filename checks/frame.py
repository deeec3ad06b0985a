# SPDX-License-Identifier: Apache-2.0
"""What all checks share: the files of the tree, one line of result, and the proof that a check bites.

A check is a function from the root of a tree to (problems, summary). Problems are "file:line: what is wrong"; a summary is a
few words. Its self-test gives it a small good tree, which must pass, and small bad trees, each of which must yield the problem
that is named.
"""

import argparse
import pathlib
import sys
import tempfile

CODE_FOLDERS = ("include", "src", "tools", "tests", "examples", "benchmarks", "bindings")
SKIPPED_FOLDERS = {"build", "__pycache__", "node_modules"}


def files_below(folder):
    """All files below a folder, sorted; build trees and hidden folders (but for .ci and .github) left out."""
    found = []
    if not folder.is_dir():
        return found
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            hidden = entry.name.startswith(".") and entry.name not in (".ci", ".github")
            if not hidden and not entry.is_symlink() and entry.name not in SKIPPED_FOLDERS:
                found += files_below(entry)
        elif entry.is_file():
            found.append(entry)
    return found


def cpp_files(root, folders=CODE_FOLDERS):
    return [file for folder in folders for file in files_below(root / folder) if file.suffix in (".h", ".cc")]


def self_test(check, good, bad):
    """`good`: {path: text} without problems. `bad`: [({path: text}, a part of the problem expected)]. Returns problems."""
    problems = []
    for number, (tree, expected) in enumerate([(good, None)] + [({**good, **changes}, text) for changes, text in bad]):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in tree.items():
                file = root / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            found, _ = check(root)
        if expected is None:
            problems += [f"self-test: the good tree is blamed: {problem}" for problem in found]
        elif not any(expected in problem for problem in found):
            problems.append(f"self-test: bad tree {number}: no problem says '{expected}'; found: {found or 'none'}")
    return problems, f"self-test: bites on {len(bad)} bad trees"


def main(name, check, good, bad):
    options = argparse.ArgumentParser(prog=f"checks/{name}")
    options.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options.add_argument("--self-test", action="store_true", help="show that the check bites")
    arguments = options.parse_args()
    problems, summary = self_test(check, good, bad) if arguments.self_test else check(arguments.root.resolve())
    for problem in problems:
        print(problem)
    print(f"{name}: {summary}" if not problems else f"{name}: {len(problems)} problems")
    sys.exit(1 if problems else 0)
