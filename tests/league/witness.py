"""usage: witness.py FILE JOB DUE

The command that every system of the league runs: writes down when it starts, that it lives, and when it ends, two seconds later.
Each line is one append: `NANOSECONDS WHAT RUN NODE JOB DUE`, by CLOCK_BOOTTIME. It holds a lock on a file of its job and instant,
which the kernel frees with it, and says `clash` when another has it. DUE is `-` where the system does not pass it."""
import fcntl
import os
import sys
import time

path, job, due = sys.argv[1:4]
# Farmhand passes both by variables.
due = os.environ.get("FARMHAND_DUE", due)
node = os.environ.get("FARMHAND_NODE") or os.environ.get("LEAGUE_NODE", "-")
run = f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}-{os.getpid()}"
out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def say(what):
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    os.write(out, f"\n{now} {what} {run} {node} {job} {due} .\n".encode())


if due != "-":
    lock = os.open(f"{path}.{job}.{due}.lock", os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say("clash")
say("start")
for _ in range(40):
    time.sleep(0.05)
    say("beat")
say("end")
