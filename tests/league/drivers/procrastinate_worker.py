"""procrastinate: a worker on each node; the task is periodic in each, and the database takes each instant once
(https://procrastinate.readthedocs.io/en/stable/howto/advanced/cron.html).

What a dead worker left is retried by the periodic task of "Retry stalled jobs"
(https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html), each minute instead of that page's every tenth.
The due instant is the task's timestamp."""
import asyncio
import datetime
import logging
import os
import sys

import procrastinate

logging.basicConfig(level=logging.WARNING)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ["LEAGUE_SERVER"]))


@app.periodic(cron="* * * * * */5")
@app.task(name="job0")
async def job0(timestamp):
    due = datetime.datetime.fromtimestamp(timestamp, datetime.UTC).isoformat()
    child = await asyncio.create_subprocess_exec(*os.environ["LEAGUE_COMMAND"].split(), "job0", due)
    if await child.wait() != 0:
        raise RuntimeError("the command failed")


@app.periodic(cron="* * * * *")
@app.task(queueing_lock="retry_stalled_jobs", pass_context=True)
async def retry_stalled_jobs(context, timestamp):
    for job in await app.job_manager.get_stalled_jobs():
        await app.job_manager.retry_job(job)


async def main():
    async with app.open_async():
        if sys.argv[1] == "setup":
            await app.schema_manager.apply_schema_async()
        else:
            await app.run_worker_async(concurrency=10)


asyncio.run(main())
