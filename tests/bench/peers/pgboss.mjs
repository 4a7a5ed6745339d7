// usage: pgboss.mjs URL RUNS: jobs in batches of 500, fetched and completed by two processes.
import { fork } from "node:child_process";
import * as module from "pg-boss";
import pg from "pg";

const PgBoss = module.PgBoss ?? module.default;
const [url, runs] = process.argv.slice(2);
const options = { connectionString: url, supervise: false, schedule: false, max: 4 };

if (process.send) {
  const boss = new PgBoss(options);
  await boss.start();
  process.once("message", async () => {
    let empty = false;
    const lane = async () => {
      while (!empty) {
        const jobs = await boss.fetch("noop", { batchSize: 500 });
        if (jobs.length === 0) break;
        await boss.complete("noop", jobs.map((j) => j.id));
      }
    };
    await Promise.all([lane(), lane()]);
    process.send("done");
  });
  process.send("ready");
} else {
  const boss = new PgBoss(options);
  await boss.start();
  await boss.createQueue("noop");
  for (let n = 0; n < Number(runs); n += 1000) {
    await boss.insert("noop", Array.from({ length: Math.min(1000, runs - n) }, () => ({ data: {} })));
  }
  const client = new pg.Client(url);
  await client.connect();
  await client.query("VACUUM ANALYZE");
  const children = [1, 2].map(() => fork(process.argv[1], process.argv.slice(2)));
  const said = () => Promise.all(children.map((c) => new Promise((heard) => c.once("message", heard))));
  await said();
  const began = performance.now();
  const done = said();
  children.forEach((c) => c.send("go"));
  await done;
  const seconds = (performance.now() - began) / 1e3;
  const completed = await client.query("SELECT count(*)::int AS n FROM pgboss.job WHERE state = 'completed'");
  console.log(JSON.stringify({ runs: completed.rows[0].n, seconds }));
  children.forEach((c) => c.kill("SIGKILL"));
  process.exit(0);
}
