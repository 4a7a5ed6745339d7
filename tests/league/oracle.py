"""Judges what the commands themselves wrote. It asks no system anything."""
import datetime
import statistics

SECOND = 1_000_000_000
LATE = 5
# What is due so long before a fault, or so long after it was healed, is told apart as the fault's.
BEFORE, AFTER = 5, 10
# Where a system does not say for which instant it runs: so much later or earlier than due a run may be, and what one that is left costs.
LOOK_BACK, LOOK_AHEAD, LEFT = 600, 120, 1e6


def read(lines):
    """The runs, by what each wrote."""
    runs = {}
    for line in lines:
        words = line.split()
        if len(words) != 7 or words[6] != ".":
            continue
        at, what, run, node, job, due = int(words[0]), *words[1:6]
        it = runs.setdefault(run, {"run": run, "node": node, "job": job, "due": due, "start": at, "last": at, "ended": False, "clash": False})
        it["last"] = at
        it["ended"] |= what == "end"
        it["clash"] |= what == "clash"
    return list(runs.values())


def align(starts, dues, every, until):
    """For each start the index of its due instant, or None: in order, with the least of what is out of place; then the least time between
    them. A start and an instant that are left are two of these; a start that is not between its instant and the next is one and a half, so
    that a row of runs is never moved for the sake of one. Instants after `until` may be left."""
    free = [0 if due > until else LEFT for due in dues]
    cost = [[0.0] * (len(dues) + 1) for _ in range(len(starts) + 1)]
    how = [[None] * (len(dues) + 1) for _ in range(len(starts) + 1)]
    for i in range(len(starts) + 1):
        for j in range(len(dues) + 1):
            ways = []
            if i and j and -LOOK_AHEAD <= (after := starts[i - 1] - dues[j - 1]) <= LOOK_BACK:
                ways.append((cost[i - 1][j - 1] + abs(after) + (0 if -1 <= after < every else 1.5 * LEFT), "both"))
            if i:
                ways.append((cost[i - 1][j] + LEFT, "start"))
            if j:
                ways.append((cost[i][j - 1] + free[j - 1], "due"))
            if ways:
                cost[i][j], how[i][j] = min(ways)
    found, i, j = [None] * len(starts), len(starts), len(dues)
    while i or j:
        if how[i][j] == "both":
            found[i - 1] = j - 1
        i, j = i - (how[i][j] != "due"), j - (how[i][j] != "start")
    return found


def assign(runs, every, offset):
    """Runs by job and due instant, in seconds since 1970. Where the system does not say for which instant a run is, those that reached
    their end are aligned. The others, and those that are left, are put to the last instant before their start."""
    of_instant = {}
    for job in {r["job"] for r in runs}:
        its = sorted((r for r in runs if r["job"] == job), key=lambda r: r["start"])
        for run in its:
            if run["due"] != "-":
                run["instant"] = round(datetime.datetime.fromisoformat(run["due"]).timestamp())
            else:
                run["instant"] = int((run["start"] + offset) / SECOND // every * every)
        ended = [r for r in its if r["ended"] and r["due"] == "-"]
        if ended:
            dues = range(its[0]["instant"], ended[-1]["instant"] + LOOK_AHEAD + 1, every)
            found = align([(r["start"] + offset) / SECOND for r in ended], dues, every, ended[-1]["instant"])
            for run, at in zip(ended, found):
                run["instant"] = run["instant"] if at is None else dues[at]
        for run in its:
            of_instant.setdefault((job, run["instant"]), []).append(run)
    return of_instant


def judge(lines, faults, system, first, last, offset):
    """`last`: until when the due instants count, from that of the first fault on, else `first`; `offset`: from CLOCK_BOOTTIME to these."""
    every, runs = system["every"], read(lines)
    if faults:
        first = (faults[0]["begin"] + offset) / SECOND // every * every
    jobs = [f"job{n}" for n in range(12 if every == 60 else 1)]
    of_instant = assign(runs, every, offset)

    def in_a_window(due):
        at = due * SECOND - offset
        return any(f["begin"] - BEFORE * SECOND <= at <= f["healed"] + AFTER * SECOND for f in faults)

    lost, overlapping, repeated, late, early, again = [], [], [], [], [], 0
    instants = [(job, due) for job in jobs for due in range(int(first), int(last) - LATE, every)]
    for job, due in instants:
        its = sorted(of_instant.get((job, due), []), key=lambda r: r["start"])
        note = {"job": job, "due": due, "window": in_a_window(due), "starts": len(its)}
        if any(r["clash"] for r in its) or any(b["start"] < a["last"] for a, b in zip(its, its[1:])):
            overlapping.append(note)
        ends = sum(r["ended"] for r in its)
        if ends > 1:
            repeated.append(note)
        if ends == 0:
            lost.append(note)
        again += ends == 1 and len(its) > 1
        if its:
            after = (its[0]["start"] + offset) / SECOND - due
            if after > LATE:
                late.append({**note, "seconds": round(after, 1)})
            if after < -1:
                early.append({**note, "seconds": round(after, 1)})
    starts = sorted(r["start"] for r in runs)
    to_next, taken_over, cut_off = [], [], 0
    for fault in faults:
        begin = fault["begin"]
        fault["next_start"] = next((round((s - begin) / SECOND, 1) for s in starts if s > begin), None)
        to_next.append(fault["next_start"])
        for run in runs:
            # It was under way on the node, and did not end before it was hit.
            hit = fault["kind"] == "kill" and run["node"] == fault["node"]
            if hit and run["start"] < begin < run["last"] + SECOND // 5 and not run["ended"]:
                cut_off += 1
                later = [r["start"] for r in of_instant[run["job"], run["instant"]] if r["start"] > begin]
                taken_over.append(round((min(later) - begin) / SECOND, 1) if later else None)
    return {
        "faults": len(faults),
        "kinds": {k: sum(f["kind"] == k for f in faults) for k in {f["kind"] for f in faults}},
        "instants": len(instants), "runs": len(runs), "run_again": again,
        "lost": lost, "overlapping": overlapping, "repeated": repeated, "late": late, "early": early,
        "stuck": [f for f in faults if f["stuck"]],
        "next_start": to_next, "cut_off": cut_off, "taken_over": taken_over, "plan": faults,
    }


def spread(values):
    known = [v for v in values if v is not None]
    return f"{statistics.median(known):.1f} / {max(known):.1f}" if known else "none"


def table(verdicts):
    """Markdown. A count, and in brackets the same per 1,000 faults; windows are told apart."""
    def per(v, n):
        return f"{n} ({n * 1000 / v['faults']:.0f})" if v["faults"] else str(n)

    def both(v, key):
        inside = sum(i["window"] for i in v[key])
        return f"{per(v, inside)} + {per(v, len(v[key]) - inside)}"

    head = ["system", "due every", "nodes", "faults", "instants", "overlapping", "repeated", "lost", "stuck", "late", "early",
            "next start, s", "cut off: run again", "after, s"]
    rows = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for v in verdicts:
        taken = [t for t in v["taken_over"] if t is not None]
        row = [v["system"], "5 s" if v["every"] == 5 else "60 s, 12 jobs", v["nodes"], v["faults"], v["instants"],
               per(v, len(v["overlapping"])), per(v, len(v["repeated"])), both(v, "lost"), per(v, len(v["stuck"])),
               both(v, "late"), per(v, len(v["early"])), spread(v["next_start"]),
               f"{len(taken)} of {v['cut_off']}", spread(taken)]
        rows.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(rows) + "\n"
