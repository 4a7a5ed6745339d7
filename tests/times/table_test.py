import unittest
import xml.etree.ElementTree

import table

REPORT = xml.etree.ElementTree.fromstring("""<testsuites name="nextest-run" tests="3" time="2.5">
    <testsuite name="farmhand-tests::chaos" tests="2">
        <testcase name="killed::one" classname="farmhand-tests::chaos" time="1.500"/>
        <testcase name="killed::two" classname="farmhand-tests::chaos" time="3.000">
            <flakyFailure timestamp="2026-12-01T10:00:00.000+00:00" time="1.000" message="x" type="test failure"/>
        </testcase>
    </testsuite>
    <testsuite name="farmhand-core" tests="1"><testcase name="cron::three" classname="farmhand-core" time="0.010"/></testsuite>
</testsuites>""")


class Table(unittest.TestCase):
    def test_what_passed_at_the_second_try_is_named_once(self):
        self.assertEqual(table.flaky([REPORT, REPORT]), ["chaos killed::two"])

    def test_steps_end_where_the_next_one_begins(self):
        self.assertEqual(table.ran("0\tformat\n3\tclippy\n63\tend\n"), [(3, "format"), (60, "clippy")])

    def test_the_table_has_steps_binaries_tests_and_files(self):
        text = table.table("0\tformat\n3\tend\n", {"junit": REPORT})
        for line in ["| 3 | format |", "3 tests in 2 s, one after the other 5 s.", "| 4 | 2 | chaos |", "| 3.0 | chaos killed::two | leases that lapse, takeovers |", "| lines | file |"]:
            self.assertIn(line, text)


if __name__ == "__main__":
    unittest.main()
