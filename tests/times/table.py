#!/usr/bin/env python3
"""What the tests take, after a run of .ci/run or of `./test --profile ci`.

    tests/times/table.py            seconds per step and per test binary, the slowest tests, the largest test files, as Markdown
    tests/times/table.py --flaky N  names the tests that passed only at the second try; exit code 1 when these are more than N

.ci/run writes target/ci/steps; nextest writes target/nextest/PROFILE/junit.xml, and .ci/run keeps that of another PostgreSQL beside it.
"""
import collections
import os
import pathlib
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOWEST, LARGEST = 50, 20
# What the tests of a binary, or of a module in it, spend their time with. Nothing measures it: who moves tests changes it here.
WAITS = {
    "api": "answers of an agent",
    "attacks": "polls of agents, refusals of the database",
    "browser": "a page that is drawn",
    "chaos": "leases that lapse, takeovers",
    "chaos network": "leases that lapse, connections that time out",
    "chaos oracle": "nothing: it computes",
    "chaos patroni": "failovers; a leader's key lives for 20 s",
    "chaos plan": "a planned minute of faults",
    "chaos replaced": "servers that are copied and started",
    "cli": "starts of the program",
    "deploy": "Ansible, Helm and their programs",
    "dev": "a farm that starts, its examples",
    "e2e": "polls, leases and commands of agents",
    "e2e many": "an instant 40 s ahead",
    "farmhand-core": "nothing: it computes",
    "flow": "commands of tasks",
    "fuzz": "nothing: it computes",
    "model": "nothing: it computes",
    "monitoring": "scrapes and alerts",
    "repo": "nothing: it reads files",
    "schedule": "nothing: it computes",
    "simulation": "nothing: it computes",
    "store": "statements of PostgreSQL",
    "store connections": "bounds of statements",
    "store_model": "statements of PostgreSQL",
    "warden": "ends and deadlines of processes",
}


def tests(report):
    """Of a JUnit report of nextest: each test's binary, name, seconds, and whether it passed only at a further try."""
    for suite in report.iter("testsuite"):
        for case in suite.iter("testcase"):
            flaky = case.find("flakyFailure") is not None or case.find("flakyError") is not None
            yield suite.get("name").split("::")[-1], case.get("name"), float(case.get("time", 0)), flaky


def waits(binary, name):
    return WAITS.get(f"{binary} {name.split('::')[0]}", WAITS.get(binary, ""))


def flaky(reports):
    return sorted({f"{binary} {name}" for report in reports for binary, name, _, again in tests(report) if again})


def ran(steps):
    """Of lines `SECONDS<tab>STEP`, which are written at a step's begin: what each step took. The last one is the end."""
    lines = [line.split("\t", 1) for line in steps.splitlines()]
    return [(int(after[0]) - int(before[0]), before[1]) for before, after in zip(lines, lines[1:])]


def rows(head, found):
    return ["", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(map(str, row))} |" for row in found)]


def table(steps, reports):
    lines = ["# What the tests take"]
    if steps:
        lines += ["", "## Steps", *rows(["seconds", "step"], ran(steps))]
    for name, report in reports.items():
        all_tests = list(tests(report))
        sums = collections.defaultdict(lambda: [0.0, 0])
        for binary, _, seconds, _ in all_tests:
            sums[binary][0] += seconds
            sums[binary][1] += 1
        took, beside = float(report.get("time", 0)), sum(seconds for seconds, _ in sums.values())
        lines += ["", f"## {name}", "", f"{len(all_tests)} tests in {took:.0f} s, one after the other {beside:.0f} s."]
        lines += rows(["seconds", "tests", "binary"], sorted(((f"{s:.0f}", n, b) for b, (s, n) in sums.items()), key=lambda row: -int(row[0])))
        slow = sorted(all_tests, key=lambda test: -test[2])[:SLOWEST]
        lines += rows(["seconds", "test", "spent with"], [(f"{s:.1f}", f"{binary} {test}", waits(binary, test)) for binary, test, s, _ in slow])
    files = [(len(file.read_bytes().splitlines()), file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("*.rs")]
    lines += ["", "## Files", "", f"{sum(lines for lines, _ in files)} lines of Rust in tests/."]
    return "\n".join(lines + rows(["lines", "file"], sorted(files, key=lambda file: (-file[0], file[1]))[:LARGEST]))


def main():
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    files = sorted((target / "nextest").glob("*/*.xml"))
    reports = {f"{file.parent.name}, {file.stem}": xml.etree.ElementTree.parse(file).getroot() for file in files}
    match sys.argv[1:]:
        case ["--flaky", most]:
            names = flaky(reports.values())
            if names:
                print(f"passed only at the second try, {len(names)} of at most {most}: {', '.join(names)}")
            sys.exit(len(names) > int(most))
        case []:
            steps = target / "ci/steps"
            print(table(steps.read_text() if steps.exists() else "", reports))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
