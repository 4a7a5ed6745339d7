"""The oracle on forged histories: each with what it must see, and nothing else. python3 -B -m unittest discover -s tests/league -p '*_test.py'"""
import datetime
import unittest

import oracle

SECOND = 1_000_000_000
# CLOCK_BOOTTIME is 0 at this time of day.
ZERO = 1_800_000_000
SYSTEM = {"every": 5}


def run(name, due, start, lives=2.0, node="n1", ended=True, what=("start",), told=True):
    """The lines of one run of job0, in seconds since ZERO."""
    said = datetime.datetime.fromtimestamp(ZERO + due, datetime.UTC).isoformat() if told else "-"
    times = [(start, w) for w in what] + [(start + lives, "end" if ended else "beat")]
    return [f"{round(at * SECOND)} {w} {name} {node} job0 {said} ." for at, w in times]


def judge(lines, faults=(), until=20):
    return oracle.judge(lines, [dict(f) for f in faults], SYSTEM, ZERO, ZERO + until + oracle.LATE, ZERO * SECOND)


def fault(begin, healed, kind="kill", node="n1", stuck=False):
    return {"kind": kind, "node": node, "begin": begin * SECOND, "healed": healed * SECOND, "stuck": stuck}


SOUND = run("a", 0, 0.1) + run("b", 5, 5.1) + run("c", 10, 10.1) + run("d", 15, 15.1)
SEEN = ["lost", "overlapping", "repeated", "late", "early"]


class Oracle(unittest.TestCase):
    def sees(self, verdict, **expected):
        self.assertEqual({k: len(verdict[k]) for k in SEEN}, {k: expected.get(k, 0) for k in SEEN})

    def test_a_sound_history(self):
        self.sees(judge(SOUND))

    def test_an_instant_without_a_run_is_lost_within_a_fault_or_outside(self):
        without = run("a", 0, 0.1) + run("c", 10, 10.1) + run("d", 15, 15.1)
        self.sees(judge(without), lost=1)
        self.assertFalse(judge(without)["lost"][0]["window"])
        self.assertTrue(judge(without, [fault(3, 6)])["lost"][0]["window"])

    def test_a_run_that_never_ends_is_lost_and_one_run_again_is_not(self):
        cut_off = run("a", 0, 0.1, ended=False) + SOUND[2:]
        verdict = judge(cut_off, [fault(2.2, 6)])
        self.sees(verdict, lost=1)
        self.assertEqual((verdict["cut_off"], verdict["taken_over"]), (1, [None]))
        verdict = judge(cut_off + run("a2", 0, 9.2, node="n2"), [fault(2.2, 6)])
        self.sees(verdict)
        self.assertEqual((verdict["run_again"], verdict["taken_over"]), (1, [7.0]))

    def test_two_at_once_and_two_one_after_the_other(self):
        self.sees(judge(SOUND + run("e", 5, 6.0, node="n2", ended=False)), overlapping=1)
        self.sees(judge(SOUND + run("e", 5, 7.5, node="n2")), repeated=1)
        self.sees(judge(SOUND + run("e", 5, 6.0, node="n2")), overlapping=1, repeated=1)
        self.sees(judge(run("a", 0, 0.1, what=("clash", "start")) + SOUND[2:]), overlapping=1)

    def test_late_and_early(self):
        self.sees(judge(SOUND[:2] + run("b", 5, 10.2) + SOUND[4:]), late=1)
        self.sees(judge(SOUND[:2] + run("b", 5, 2.2) + SOUND[4:]), early=1)

    def test_without_a_due_instant_runs_and_instants_are_aligned(self):
        def untold(*starts):
            return sum((run(f"r{n}", 0, at, told=False) for n, at in enumerate(starts)), [])

        # As in a sitting, it runs before the first instant that counts and after the last.
        before, after = [-14.9, -9.9, -4.9], [20.1 + 5 * n for n in range(30)]
        self.sees(judge(untold(*before, 0.1, 5.1, 10.1, 15.1, *after)))
        self.sees(judge(untold(*before, 0.1, 10.1, 15.1, *after)), lost=1)
        self.sees(judge(untold(*before, 0.1, 5.1, 5.2, 10.1, 15.1, *after)), overlapping=1, repeated=1)
        # Three at once after an outage.
        self.sees(judge(untold(*before, 10.1, 10.2, 10.3, 15.1, *after)), late=2)
        # A clock that is ahead.
        self.sees(judge(untold(*before, 0.1, 1.0, 2.0, 15.1, *after)), early=2)
        # What was cut off and is run again is still the same instant.
        cut_off = run("x", 0, 5.1, ended=False, told=False)
        self.sees(judge(untold(*before, 0.1, 10.1, 11.1, 15.1, *after) + cut_off))

    def test_a_torn_line_counts_for_nothing(self):
        self.sees(judge(SOUND + ["123 end e n2 job0", ""]))

    def test_takeover_is_counted_from_the_fault(self):
        self.assertEqual(judge(SOUND, [fault(6, 8, "cut")])["next_start"], [4.1])


if __name__ == "__main__":
    unittest.main()
