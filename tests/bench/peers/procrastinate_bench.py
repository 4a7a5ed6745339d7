"""usage: procrastinate_bench.py URL RUNS: jobs that do nothing, ten at a time in one worker."""
import asyncio
import json
import logging
import sys
import time

import procrastinate

url, runs = sys.argv[1], int(sys.argv[2])
logging.disable(logging.CRITICAL)
app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=10))


@app.task(name="noop")
async def noop():
    pass


async def main():
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await noop.batch_defer_async(*[{} for _ in range(runs)])
        began = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=10, install_signal_handlers=False)
        print(json.dumps({"runs": runs, "seconds": time.perf_counter() - began}))


asyncio.run(main())
