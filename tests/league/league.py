"""The league: the same faults and the same oracle for several schedulers. tests/league/run starts it; docs/lab/league.md explains it."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import oracle
import field

KINDS = ["kill", "stop", "cut", "database", "clock"]
# Where a system has minutes only, twelve jobs are due each minute, so that as many instants meet a fault.
SYSTEMS = {
    "farmhand-30s": {"every": 5, "nodes": 3, "passes": True, "driver": ["farmhand", "30s"]},
    "farmhand-10s": {"every": 5, "nodes": 3, "passes": True, "driver": ["farmhand", "10s"]},
    "cron": {"every": 60, "nodes": 1, "passes": False, "driver": ["cron"], "server": None},
    "apscheduler": {"every": 5, "nodes": 1, "passes": True, "driver": ["apscheduler_node.py"]},
    "procrastinate": {"every": 5, "nodes": 3, "passes": True, "driver": ["procrastinate_worker.py"]},
    "graphile-worker": {"every": 60, "nodes": 3, "passes": True, "driver": ["graphile.mjs"]},
    "pg-boss": {"every": 60, "nodes": 3, "passes": False, "driver": ["pgboss.mjs"]},
    "celery": {"every": 60, "nodes": 3, "passes": False, "driver": ["celery_app.py"], "server": "redis", "beat": True},
}


def plan(seed, faults, has_server):
    """A pure function of the seed: each kind in turn in the middle of a run and between runs, and how far into either."""
    chance, rounds = random.Random(seed), []
    first = {kind: chance.random() < 0.5 for kind in KINDS}
    while len(rounds) < faults:
        turns = len(rounds) // len(KINDS)
        rounds += [{"kind": k, "within": first[k] ^ (turns % 2 == 1), "far": chance.random()} for k in chance.sample(KINDS, len(KINDS))]
    return [f for f in rounds[:faults] if has_server or f["kind"] != "database"]


def aim(farm, system, fault):
    """Waits for the moment of the plan; the node is the one that began a run last."""
    seen = len(farm.starts())
    deadline = time.monotonic() + 60 + 2 * system["every"]
    while len(farm.starts()) == seen and time.monotonic() < deadline:
        time.sleep(0.1)
    node = farm.starts()[-1]["node"] if farm.starts() else "n1"
    time.sleep(0.3 + 1.4 * fault["far"] if fault["within"] else 2.3 + (system["every"] - 2.3) * fault["far"])
    return node


def one(name, system, seed, faults, lasts, quiet, to, out):
    """One system's turn. This process is in namespaces of its own."""
    farm = field.Field(name, system, to)
    farm.start()
    farm.await_starts(2 * max(1, 60 // system["every"] // 12), 180)
    # The first instant that counts is the next but one.
    first = (farm.wall() // system["every"] + 2) * system["every"]
    done, load = [], [os.getloadavg()[0]]
    for fault in plan(seed, faults, farm.server is not None):
        node = aim(farm, system, fault)
        begin = farm.now()
        farm.begin(fault["kind"], node)
        time.sleep(10 if fault["kind"] == "database" else lasts)
        farm.heal(fault["kind"], node)
        healed = farm.now()
        # It goes on when two instants after the fault have begun.
        goes_on = farm.await_starts_since(healed, 2, 60 + system["every"])
        done.append({**fault, "node": node, "begin": begin, "healed": healed, "stuck": goes_on is None})
        print(f"{name}: {len(done)} {fault['kind']} {node}{'' if goes_on else ' STUCK'}", file=sys.stderr, flush=True)
        if goes_on is None:
            farm.start_anew()
            farm.await_starts_since(farm.now(), 1, 60 + 2 * system["every"])
        time.sleep(8)
        load.append(os.getloadavg()[0])
    last = farm.wall()
    time.sleep(quiet)
    lines = farm.lines()
    (out / f"{name}.log").write_text(farm.logs(100_000))
    (out / f"{name}.witness").write_text("\n".join(lines) + "\n")
    facts = {"system": name, "seed": seed, "every": system["every"], "nodes": system["nodes"], "passes": system["passes"], "lasts": lasts,
             "first": first, "last": last, "offset": farm.offset, "load": [min(load), max(load)], "latest_wakeup": farm.latest_wakeup,
             "ended_by_themselves": farm.ended}
    return {**facts, **oracle.judge(lines, done, system, first, last, farm.offset)}


def again(out, name):
    """The verdict on what the commands wrote then."""
    old = json.loads((out / f"{name}.json").read_text())
    lines = (out / f"{name}.witness").read_text().splitlines()
    return {**old, **oracle.judge(lines, old["plan"], old, old["first"], old["last"], old["offset"])}


def turn(name, arguments, to, out):
    """The same, in a process with namespaces that end with it."""
    namespaces = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    inside = [sys.executable, __file__, to, "--inside", name, "--out", out, "--seed", arguments.seed, "--faults", arguments.faults,
              "--lasts", arguments.lasts, "--quiet", arguments.quiet]
    (out / f"{name}.json").unlink(missing_ok=True)
    subprocess.run([str(word) for word in namespaces + inside], check=False)


def main():
    words = argparse.ArgumentParser(prog="tests/league/run")
    words.add_argument("to", type=pathlib.Path, help=argparse.SUPPRESS)
    words.add_argument("systems", nargs="*", help=f"of {', '.join(SYSTEMS)}; all of them")
    words.add_argument("--faults", type=int, default=10)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--lasts", type=float, default=30, help="seconds that a node is away")
    words.add_argument("--quiet", type=float, default=120, help="seconds for what is still to be run again after the last fault")
    words.add_argument("--at-once", type=int, default=1, help="so many systems beside each other")
    words.add_argument("--out", type=pathlib.Path)
    words.add_argument("--judge", action="store_true", help="nothing is run: what is in OUT is judged again")
    words.add_argument("--inside", help=argparse.SUPPRESS)
    words.add_argument("--print-plan", action="store_true")
    arguments = words.parse_intermixed_args()
    if arguments.print_plan:
        print(json.dumps(plan(arguments.seed, arguments.faults, True), indent=1))
        return
    out = arguments.out or arguments.to / "results"
    out.mkdir(parents=True, exist_ok=True)
    if name := arguments.inside:
        if os.getpid() == 1 and os.fork():
            # Process 1 of the namespace waits for what has lost its parent. When it ends, so does everything.
            while os.wait()[0] != 2:
                pass
            return
        verdict = one(name, SYSTEMS[name], arguments.seed, arguments.faults, arguments.lasts, arguments.quiet, arguments.to, out)
        (out / f"{name}.json").write_text(json.dumps(verdict, indent=1) + "\n")
        return
    names = arguments.systems or list(SYSTEMS)
    if unknown := set(names) - set(SYSTEMS):
        words.error(f"no such system: {', '.join(sorted(unknown))}; there are {', '.join(SYSTEMS)}")
    if not arguments.judge:
        with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
            list(pool.map(lambda name: turn(name, arguments, arguments.to, out), names))
    verdicts = [again(out, name) for name in names if (out / f"{name}.json").exists()]
    for verdict in verdicts:
        (out / f"{verdict['system']}.json").write_text(json.dumps(verdict, indent=1) + "\n")
    (out / "table.md").write_text(table := oracle.table(verdicts))
    print(table)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
