#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner must not call a run good that was not: what it makes of failures, crashes, hangs and silence."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import run_all  # noqa: E402


class RunAll(unittest.TestCase):
    def counts(self, script, tally, timeout=10):
        """(passed, failed, output) of a shell script run as one part."""
        suite = run_all.Suite()
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said):
            with contextlib.redirect_stderr(io.StringIO()):
                suite.run("part", ["sh", "-c", script], timeout, pathlib.Path(folder) / "part.log", tally)
        return suite.passed, suite.failed, said.getvalue()

    def test_an_exit_status_counts(self):
        self.assertEqual(self.counts("exit 0", run_all.tally_one)[:2], (1, 0))
        self.assertEqual(self.counts("exit 3", run_all.tally_one)[:2], (0, 1))

    def test_a_hang_is_a_failure_and_ends(self):
        passed, failed, said = self.counts("sleep 60", run_all.tally_one, timeout=0.2)
        self.assertEqual((passed, failed), (0, 1))
        self.assertIn("no end after 0.2 s", said)

    def test_silence_is_a_failure(self):
        self.assertEqual(self.counts("exit 0", run_all.tally_json)[:2], (0, 1))
        self.assertEqual(self.counts("exit 0", run_all.tally_lines)[:2], (0, 1))

    def test_objects_are_summed(self):
        script = """echo '{"cases": 9, "failed": 2, "unsupported": 3}'; echo '{"schedules": 5, "proved": 5, "failed": 0}'; echo note"""
        self.assertEqual(self.counts(script, run_all.tally_json)[:2], (9, 2))

    def test_runs_of_chaos_are_counted(self):
        script = """echo '{"runs": 9, "right": 7, "wrong": 1, "hung": 0, "crashed": 1}'; exit 1"""
        self.assertEqual(self.counts(script, run_all.tally_json)[:2], (7, 2))

    def test_a_bad_exit_status_fails_though_all_cases_passed(self):
        self.assertEqual(self.counts("""echo '{"cases": 9, "failed": 0}'; exit 66""", run_all.tally_json)[:2], (9, 1))

    def test_a_crashed_googletest_keeps_what_passed(self):
        missing = pathlib.Path("/nonexistent/report.json")
        script = "echo '[       OK ] A.One (0 ms)'; echo '[ RUN      ] A.Two'; kill -SEGV $$"
        passed, failed, said = self.counts(script, run_all.tally_googletest(missing))
        self.assertEqual((passed, failed), (1, 1))
        self.assertIn("ended in A.Two", said)

    def test_a_googletest_report_is_counted(self):
        tests = [
            {"status": "RUN", "result": "COMPLETED"},
            {"status": "RUN", "result": "COMPLETED", "failures": [{}]},
            {"status": "RUN", "result": "SKIPPED"},
            {"status": "NOTRUN", "result": "SUPPRESSED"},
        ]
        with tempfile.NamedTemporaryFile("w") as report:
            report.write(json.dumps({"testsuites": [{"testsuite": tests}]}))
            report.flush()
            tally = run_all.tally_googletest(pathlib.Path(report.name))
            self.assertEqual(tally("", 1), (1, 1, "1 skipped"))

    def test_the_callers_own_settings_do_not_reach_the_tests(self):
        run_all.os.environ["REGROUP_TIMEOUT"] = "1ms"
        self.assertNotIn("REGROUP_TIMEOUT", run_all.child_environment())


if __name__ == "__main__":
    unittest.main()
