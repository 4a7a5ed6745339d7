"""Judges what the commands themselves wrote. It asks no system anything."""
import datetime
import statistics

SECOND = 1_000_000_000
LATE = 5
# So long after a fault is over, what it did to an instant is still counted as the fault's.
AFTER = 10
LOOK_BACK = 600


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


def assign(runs, every, offset):
    """Runs by job and due instant, in seconds since 1970.

    Where the system does not say for which instant a run is, it is for the newest before its start, within ten minutes, for which no run
    has ended. What is left has no such instant: it is one more for the last."""
    of_instant = {}
    for run in sorted(runs, key=lambda r: r["start"]):
        if run["due"] != "-":
            due = round(datetime.datetime.fromisoformat(run["due"]).timestamp())
        else:
            newest = int((run["start"] + offset) / SECOND // every * every)
            candidates = range(newest, newest - LOOK_BACK, -every)
            open_ones = (d for d in candidates if not any(r["ended"] for r in of_instant.get((run["job"], d), [])))
            due = next(open_ones, newest)
        run["instant"] = due
        of_instant.setdefault((run["job"], due), []).append(run)
    return of_instant


def judge(lines, faults, system, first, last, offset):
    """`first` to `last`: the due instants that count, in seconds since 1970; `offset`: from CLOCK_BOOTTIME to that."""
    every, runs = system["every"], read(lines)
    jobs = [f"job{n}" for n in range(12 if every == 60 else 1)]
    of_instant = assign(runs, every, offset)

    def in_a_window(due):
        at = due * SECOND - offset
        return any(f["begin"] - 2 * SECOND <= at <= f["healed"] + AFTER * SECOND for f in faults)

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
               both(v, "late"), per(v, len(v["early"])) if v["passes"] else "not visible", spread(v["next_start"]),
               f"{len(taken)} of {v['cut_off']}", spread(taken)]
        rows.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(rows) + "\n"
