"""APScheduler 3 with a SQLAlchemy job store in PostgreSQL, the store that its user guide recommends.

One scheduler: "How do I share a single job store among one or more worker processes?" of its FAQ says that two must not share one
(https://apscheduler.readthedocs.io/en/3.x/faq.html). Each instant is to run, however late: coalesce=False, misfire_grace_time=None and
max_instances of the user guide (https://apscheduler.readthedocs.io/en/3.x/userguide.html#missed-job-executions-and-coalescing).
The job is stored once: adding it again with replace_existing=True, as that guide shows for programs that do it at each start, would
forget what it missed. APScheduler passes no due instant to the function; the executor below does, and is ThreadPoolExecutor else."""
import os
import subprocess
import sys

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.blocking import BlockingScheduler


class TellingExecutor(ThreadPoolExecutor):
    def _do_submit_job(self, job, run_times):
        # Those of one submission run one after the other, in this order.
        job.args = ([due.isoformat() for due in run_times],)
        super()._do_submit_job(job, run_times)


def run(dues):
    subprocess.run([*os.environ["LEAGUE_COMMAND"].split(), "job0", dues.pop(0)], check=True)


def scheduler(kind):
    store = SQLAlchemyJobStore(url=os.environ["LEAGUE_SERVER"].replace("postgresql:", "postgresql+psycopg:"),
                               engine_options={"pool_pre_ping": True})
    return kind(timezone="UTC", jobstores={"default": store}, executors={"default": TellingExecutor(20)},
                job_defaults={"coalesce": False, "misfire_grace_time": None, "max_instances": 20})


if __name__ == "__main__":
    if sys.argv[1] == "setup":
        once = scheduler(BackgroundScheduler)
        once.start(paused=True)
        once.add_job("__main__:run", "cron", second="*/5", id="job0", args=[[]])
        once.shutdown()
    else:
        scheduler(BlockingScheduler).start()
