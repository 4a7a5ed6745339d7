"""Celery: a worker on each node, Redis as the broker, and beat on the first node alone: "You have to ensure only a single scheduler is
running for a schedule at a time" (https://docs.celeryq.dev/en/stable/userguide/periodic-tasks.html).

Twelve tasks, each due every minute: crontab() has minutes, and a schedule in seconds is not tied to the clock. A task that a dead worker
left is delivered again: acks_late and reject_on_worker_lost (https://docs.celeryq.dev/en/stable/userguide/tasks.html) and a
visibility_timeout above the longest task, here 30 s instead of an hour
(https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html#visibility-timeout). It passes no due instant."""
import os
import subprocess
import sys
import threading
import time

from celery import Celery
from celery.schedules import crontab

app = Celery("celery_app", broker=os.environ["LEAGUE_SERVER"])
app.conf.update(
    task_acks_late=True, task_reject_on_worker_lost=True, task_ignore_result=True, worker_prefetch_multiplier=1,
    broker_transport_options={"visibility_timeout": 30}, broker_connection_retry_on_startup=True, broker_connection_max_retries=None,
    beat_schedule_filename=os.environ["LEAGUE_DIR"] + "/beat",
    beat_schedule={f"job{n}": {"task": "league", "schedule": crontab(), "args": [f"job{n}"]} for n in range(12)})


@app.task(name="league")
def league(job):
    subprocess.run([*os.environ["LEAGUE_COMMAND"].split(), job, "-"], check=True)


if __name__ == "__main__" and sys.argv[1] != "setup":
    # Beat sleeps by time.sleep, which the library that steps the clock makes fail now and then.
    time.sleep = lambda seconds: threading.Event().wait(seconds)
    os.chdir(os.path.dirname(__file__))
    worker = ["worker", "--concurrency", "8", "--hostname", os.environ["LEAGUE_NODE"], "--loglevel", "WARNING"]
    beat = ["beat", "--pidfile", "", "--loglevel", "WARNING"]
    app.start(worker if sys.argv[1] == "node" else beat)
