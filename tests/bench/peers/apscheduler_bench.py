"""usage: apscheduler_bench.py PROGRAM FILE JOBS ROUNDS EVERY

So many jobs due at once every so many seconds; each runs PROGRAM FILE, from a pool of eight processes."""
import datetime
import os
import subprocess
import sys
import time

from apscheduler.executors.pool import ProcessPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

program, file = sys.argv[1:3]
jobs, rounds, every = map(int, sys.argv[3:])


def run(due):
    subprocess.run([program, file], env={**os.environ, "FARMHAND_DUE": due}, check=True)


def main():
    # The first round finds caches cold and no processes in the pool, as the one of Farmhand does.
    first = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(seconds=3)
    scheduler = BackgroundScheduler(timezone="UTC", executors={"default": ProcessPoolExecutor(8)})
    for round in range(rounds + 1):
        due = first + datetime.timedelta(seconds=every * round)
        for _ in range(jobs):
            scheduler.add_job(run, "date", run_date=due, args=[due.isoformat()], misfire_grace_time=60)
    scheduler.start()
    while scheduler.get_jobs():
        time.sleep(0.1)
    scheduler.shutdown(wait=True)


if __name__ == "__main__":
    main()
