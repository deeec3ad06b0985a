#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs everything that must pass, one part after the other, and counts. Called by ./dev test.

Results go to standard output, whose last line is "N passed, N failed"; times and build logs go to standard error. A part that
fails does not stop the others. A part that cannot run counts as one failure: silence is not success.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
TAIL = 60  # lines of a failed part's log that are shown

# ctest also knows these; here they run as parts of their own, with their own counting.
COUNTED_APART = re.compile(r"unit|conformance|verify|consumer|run_all_test|check_\w+")

# What has no threads cannot race: ThreadSanitizer need not look at it for minutes. The other sanitizers do.
WITHOUT_THREADS = ("*Planners*", "Planners*", "Mutants*", "*Reduce*", "Interpreter*", "Verifier*", "Suite*", "Batch*", "Cost*")
# What has them, but is about values, many times over.
ABOUT_VALUES = ("FieldReductions.TheSame*", "FieldReductions.Reproducible*")
FILTERS = {"tsan": "-" + ":".join(WITHOUT_THREADS + ABOUT_VALUES)}
# Sanitized unit tests run as so many processes at once: much of their time is waiting.
SHARDS = 2

SANITIZER_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "ASAN_OPTIONS": "halt_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def child_environment():
    """The caller's environment without what would change what the tests do."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("REGROUP_")}
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        environment.pop(name, None)
    for name, value in SANITIZER_OPTIONS.items():
        environment.setdefault(name, value)
    return environment


class Suite:
    """The counts, and how to run one part."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.lock = threading.Lock()  # parts may run side by side
        self.environment = child_environment()
        self.times = []

    def say(self, text):
        print(text, flush=True)

    def count(self, part, passed, failed, note=""):
        with self.lock:
            self.passed += passed
            self.failed += failed
        self.say(f"{part}: {passed} passed, {failed} failed{'; ' + note if note else ''}")

    def did_not_run(self, part, why):
        self.count(part, 0, 1, f"DID NOT RUN: {why}")

    def timed(self, part, action):
        start = time.monotonic()
        try:
            return action()
        finally:
            seconds = time.monotonic() - start
            self.times.append((part, seconds))
            print(f"test: {part}: {seconds:.1f} s", file=sys.stderr, flush=True)

    def execute(self, part, command, timeout, log):
        """The exit status (None after the time-out), and the standard output. Errors go to `log`."""
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.with_suffix(".out")
        with open(output, "wb") as out, open(log, "wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=errors, start_new_session=True)  # fmt: skip
            status = None
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if process.returncode is None:  # its ranks end with it
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return status, output.read_text(errors="replace")

    def show(self, part, log):
        """The ends of a failed part's output and of its errors."""
        for file in (log.with_suffix(".out"), log):
            lines = file.read_text(errors="replace").splitlines() if file.exists() else []
            for line in lines[-TAIL:]:
                self.say(f"  {part} | {line}")

    def run(self, part, command, timeout, log, tally):
        """Runs one part; `tally` makes (passed, failed, note) of its output and exit status."""

        def action():
            status, output = self.execute(part, [str(word) for word in command], timeout, log)
            passed, failed, note = tally(output, status)
            complaint = {0: "", None: f"no end after {timeout} s"}.get(status, f"exit status {status}")
            if not complaint and passed + failed == 0:
                complaint = "counted nothing"
            if complaint:
                failed, note = max(failed, 1), "; ".join(filter(None, (note, complaint)))
            if failed:
                self.show(part, log)
            self.count(part, passed, failed, note)

        self.timed(part, action)


def tally_one(output, status):
    """A part whose exit status says all."""
    return (1, 0, "") if status == 0 else (0, 1, "")


def tally_lines(output, status):
    """A part that prints one line for each thing that is fine."""
    return output.count(": fine"), 0, ""


def tally_googletest(report):
    """Counts from the report file; from the lines printed so far if the program did not come to write it."""

    def tally(output, status):
        if report.exists():
            passed = failed = skipped = 0
            for suite in json.loads(report.read_text())["testsuites"]:
                for test in suite["testsuite"]:
                    if test.get("failures"):
                        failed += 1
                    elif test.get("result") == "SKIPPED":
                        skipped += 1
                    elif test.get("status") == "RUN":
                        passed += 1
            return passed, failed, f"{skipped} skipped" if skipped else ""
        passed = len(re.findall(r"^\[       OK \] \S+ \(\d+ ms\)", output, re.MULTILINE))
        failed = len(re.findall(r"^\[  FAILED  \] .*\(\d+ ms\)", output, re.MULTILINE))
        started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        return passed, failed + 1, f"ended in {started[-1] if started else 'its start'}"

    return tally


def tally_json(output, status):
    """Counts from the objects that the command line tool prints, one a line."""
    passed = failed = 0
    for line in output.splitlines():
        try:
            report = json.loads(line)
        except ValueError:
            continue
        if not isinstance(report, dict) or not {"cases", "schedules", "runs"} & report.keys():
            continue
        if "runs" in report:
            passed += report["right"]
            failed += report["runs"] - report["right"]
            continue
        failed += report["failed"]
        if "cases" in report:
            passed += report.get("passed", report["cases"] - report["failed"] - report.get("unsupported", 0))
        else:
            passed += report["proved"]
    return passed, failed, ""


def build(suite, preset, targets):
    """Whether the targets of a preset could be built; a failure is counted."""
    command = [ROOT / "dev", "build", preset, *targets]
    part = f"build {preset} {' '.join(targets)}".strip()
    status = suite.timed(part, lambda: subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode)
    if status != 0:
        suite.count(part, 0, 1, "see the errors above")
    return status == 0


def launcher(preset):
    """ThreadSanitizer's memory layout does not survive the widest address randomisation: it is switched off there."""
    bits = pathlib.Path("/proc/sys/vm/mmap_rnd_bits")
    wide = preset == "tsan" and bits.exists() and int(bits.read_text()) > 28
    return ["setarch", "-R"] if wide and shutil.which("setarch") else []


def run_googletest(suite, part, preset, program, timeout, shard=None):
    logs = BUILD / preset / "logs"
    name = program.name if shard is None else f"{program.name}-{shard}"
    report = logs / f"{name}.json"
    report.unlink(missing_ok=True)
    command = [*launcher(preset), program, f"--gtest_output=json:{report}"]
    if preset in FILTERS:
        command.append(f"--gtest_filter={FILTERS[preset]}")
    if shard is not None:
        command = ["env", f"GTEST_TOTAL_SHARDS={SHARDS}", f"GTEST_SHARD_INDEX={shard}", *command]
    suite.run(part, command, timeout, logs / f"{name}.log", tally_googletest(report))


def run_in_shards(suite, part, preset, program, timeout):
    shards = [
        threading.Thread(target=run_googletest, args=(suite, f"{part} {shard + 1}/{SHARDS}", preset, program, timeout, shard))
        for shard in range(SHARDS)
    ]
    for shard in shards:
        shard.start()
    for shard in shards:
        shard.join()


def run_tool(suite, part, arguments, timeout):
    program = BUILD / "release" / "bin" / "regroup"
    log = BUILD / "release" / "logs" / f"{arguments[0]}.log"
    suite.run(part, [program, *arguments, "--json"], timeout, log, tally_json)


def has_verb(suite, verb):
    command = [BUILD / "release" / "bin" / "regroup", "help", verb]
    return subprocess.run(command, env=suite.environment, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def run_checks(suite):
    logs = BUILD / "checks"
    for check in sorted((ROOT / "checks").iterdir()):
        if not (check.is_file() and os.access(check, os.X_OK)):
            continue
        suite.run(f"checks/{check.name} --self-test", [check, "--self-test"], 120, logs / f"{check.name}-self.log", tally_one)
        suite.run(f"checks/{check.name}", [check], 300, logs / f"{check.name}.log", tally_one)


def other_tests(suite):
    """What ctest knows besides: [(name, command)]."""
    ctest = shutil.which("ctest") or "/usr/bin/ctest"
    command = [ctest, "--test-dir", BUILD / "release", "--show-only=json-v1"]
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode != 0:
        suite.did_not_run("ctest", listing.stderr.strip())
        return []
    tests = [(test["name"], test.get("command")) for test in json.loads(listing.stdout)["tests"]]
    return [(name, command) for name, command in tests if not COUNTED_APART.fullmatch(name)]


def run_others(suite):
    for name, command in other_tests(suite):
        if not command or not pathlib.Path(command[0]).exists():
            suite.did_not_run(name, "it is not built")
        elif command[0].endswith("_tests") and len(command) == 1:
            run_googletest(suite, name, "release", pathlib.Path(command[0]), 300)
        else:
            suite.run(name, command, 300, BUILD / "release" / "logs" / f"ctest-{name}.log", tally_one)


def run_release(suite):
    units = build(suite, "release", ["unit_tests"])
    everything = build(suite, "release", [])
    if units:
        run_googletest(suite, "unit_tests", "release", BUILD / "release" / "bin" / "unit_tests", 300)
    else:
        suite.did_not_run("unit_tests", "it could not be built")

    run_checks(suite)
    suite.run("run_all_test", [ROOT / "tests" / "run_all_test.py"], 60, BUILD / "checks" / "run_all.log", tally_one)

    if not everything:
        for part in ("conformance", "verify", "consumer"):
            suite.did_not_run(part, "the release build failed")
        return
    if (BUILD / "release" / "bin" / "regroup").exists():
        run_tool(suite, "conformance", ["conformance"], 300)
        if has_verb(suite, "verify"):
            run_tool(suite, "verify", ["verify", "--ranks", "1-32"], 300)
        elif (ROOT / "src" / "verify").exists():
            suite.did_not_run("verify", "the tool has no such verb")
        # A time-out that a busy machine does not make true by itself.
        run_tool(suite, "chaos", ["chaos", "-n", "4", "--runs", "24", "--timeout", "1s"], 300)
    else:
        suite.did_not_run("conformance", "there is no build/release/bin/regroup")
    run_others(suite)
    log = BUILD / "release" / "logs" / "consumer.log"
    suite.run("consumer", [ROOT / "tests" / "consumer" / "run"], 300, log, tally_lines)


def run_sanitized(suite, preset):
    if not build(suite, preset, ["unit_tests", "conformance_tests"]):
        suite.did_not_run(preset, "it could not be built")
        return
    programs = BUILD / preset / "bin"
    run_in_shards(suite, f"{preset} unit_tests", preset, programs / "unit_tests", 600)
    command = [*launcher(preset), programs / "conformance_tests", "1", "2", "3"]
    suite.run(f"{preset} conformance", command, 600, BUILD / preset / "logs" / "conformance.log", tally_json)


def main():
    suite = Suite()
    start = time.monotonic()
    run_release(suite)
    for preset in os.environ.get("REGROUP_TEST_SANITIZERS", "tsan").split():
        run_sanitized(suite, preset)
    print(f"test: {time.monotonic() - start:.0f} s in all; the longest parts:", file=sys.stderr)
    for part, seconds in sorted(suite.times, key=lambda entry: -entry[1])[:8]:
        print(f"test: {seconds:7.1f} s  {part}", file=sys.stderr)
    sys.stderr.flush()
    suite.say(f"{suite.passed} passed, {suite.failed} failed")
    sys.exit(1 if suite.failed else 0)


if __name__ == "__main__":
    main()
