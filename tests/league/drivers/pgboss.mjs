// pg-boss: an instance on each node, each of which may schedule (https://github.com/timgit/pg-boss, docs/api/scheduling.md). Twelve queues,
// each due every minute: that page discourages seconds. cronMonitorIntervalSeconds and the others are the defaults: it looks every
// 30 s. What a dead worker left is retried once its heartbeat of 10 s, the shortest, is missed (docs/api/queues.md); retryLimit 2 is the
// default. It passes no due instant.
import { spawn } from "node:child_process";
import * as module from "pg-boss";

const PgBoss = module.PgBoss ?? module.default;
const { LEAGUE_SERVER: connectionString, LEAGUE_COMMAND } = process.env;
const jobs = Array.from({ length: 12 }, (_, n) => `job${n}`);
const boss = new PgBoss({ connectionString });
boss.on("error", (error) => console.error(String(error)));
await boss.start();
if (process.argv[2] === "setup") {
  for (const job of jobs) {
    await boss.createQueue(job, { heartbeatSeconds: 10 });
    await boss.schedule(job, "* * * * *", null, { tz: "UTC" });
  }
  await boss.stop();
} else {
  for (const job of jobs) {
    await boss.work(job, async () => {
      const [program, ...words] = LEAGUE_COMMAND.split(" ");
      const child = spawn(program, [...words, job, "-"], { stdio: "ignore" });
      const code = await new Promise((done) => child.on("exit", done));
      if (code !== 0) throw new Error(`exit code ${code}`);
    });
  }
}
