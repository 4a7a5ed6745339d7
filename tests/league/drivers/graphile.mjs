// graphile-worker's crontab: the same on each node, which "just works" (https://worker.graphile.org/docs/cron#distributed-crontab).
// Twelve lines, each due every minute, since minutes are what it has; an explicit id each, and fill=10m makes up for missed ones, as that
// page says. The due instant is _cron.ts of the payload.
import { spawn } from "node:child_process";
import { makeWorkerUtils, run } from "graphile-worker";

const { LEAGUE_SERVER: connectionString, LEAGUE_COMMAND } = process.env;
if (process.argv[2] === "setup") {
  const utils = await makeWorkerUtils({ connectionString });
  await utils.migrate();
  await utils.release();
} else {
  const crontab = Array.from({ length: 12 }, (_, n) => `* * * * * league ?id=job${n}&fill=10m {job:"job${n}"}`).join("\n");
  const league = ({ job, _cron }) =>
    new Promise((done, failed) => {
      const [program, ...words] = LEAGUE_COMMAND.split(" ");
      const child = spawn(program, [...words, job, new Date(_cron.ts).toISOString()], { stdio: "ignore" });
      child.on("exit", (code) => (code === 0 ? done() : failed(new Error(`exit code ${code}`))));
    });
  const runner = await run({ connectionString, concurrency: 12, crontab, taskList: { league } });
  await runner.promise;
}
