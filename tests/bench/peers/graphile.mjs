// usage: graphile.mjs default|tuned URL RUNS: jobs of a task that does nothing, until the table is empty again.
import { fork } from "node:child_process";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [how, url, runs] = process.argv.slice(2);
const logger = new Logger(() => () => {});
const tuned = { concurrentJobs: 24, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const plain = { concurrentJobs: 10 };

if (process.send) {
  process.once("message", async () => {
    const worker = { connectionString: url, pollInterval: 2000, maxPoolSize: 10, ...(how === "tuned" ? tuned : plain) };
    await run({ preset: { worker }, logger, noHandleSignals: true, taskList: { noop: () => {} } });
  });
  process.send("ready");
} else {
  const utils = await makeWorkerUtils({ connectionString: url, logger });
  await utils.migrate();
  const client = new pg.Client(url);
  await client.connect();
  await client.query(
    "SELECT graphile_worker.add_jobs(array_agg(json_populate_record(null::graphile_worker.job_spec, '{\"identifier\":\"noop\"}')), true) FROM generate_series(1, $1::int)",
    [Number(runs)],
  );
  await client.query("VACUUM ANALYZE graphile_worker._private_jobs");
  const children = [1, 2].map(() => fork(process.argv[1], process.argv.slice(2)));
  await Promise.all(children.map((c) => new Promise((ready) => c.once("message", ready))));
  const began = performance.now();
  children.forEach((c) => c.send("go"));
  for (;;) {
    const left = await client.query("SELECT EXISTS (SELECT FROM graphile_worker._private_jobs) AS some");
    if (!left.rows[0].some) break;
    await new Promise((r) => setTimeout(r, 10));
  }
  console.log(JSON.stringify({ runs: Number(runs), seconds: (performance.now() - began) / 1e3 }));
  children.forEach((c) => c.kill("SIGKILL"));
  process.exit(0);
}
