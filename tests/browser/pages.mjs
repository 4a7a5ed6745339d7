// Every page, light, dark and narrow: readable by whoever looks, with nothing wrong on the way.
import { accessible, base, check, eventually, look, open, picture, please, script, tooSmall } from "./browser.mjs";

await script(async () => {
  const flow = await please("finished night");
  const failed = await please("finished broken");
  const waits = (await please("submit scrub"), await please("submit scrub"));
  check((await please("past archive")) === "85", "a job has a past");
  const pages = {
    now: "/",
    jobs: "/jobs",
    "jobs-sorted": "/jobs?sort=failures",
    ahead: "/ahead",
    "ahead-week": "/ahead?by=day",
    job: "/jobs/shards",
    "job-days": "/jobs/archive",
    "job-failing": "/jobs/broken",
    runs: "/runs?state=bad",
    "run-failed": `/runs/${failed}`,
    "run-waits": `/runs/${waits}`,
    flow: `/runs/${flow}/flow`,
    nodes: "/nodes?sort=running",
    node: "/nodes/n1",
    pools: "/pools",
    pool: "/pools/disk",
    events: "/events?about=audit",
    "events-all": "/events",
    "run-now": "/act/run?job=greet",
    drain: "/act/drain?node=n1",
    empty: "/jobs?name=nothing-has-this-name",
  };
  const shown = new Set(["jobs", "job", "job-days", "flow", "events"]);
  for (const dark of [false, true]) {
    const page = await open({ dark });
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(base + path);
      await accessible(page, `${name} ${dark ? "dark" : "light"}`);
      if (!dark && shown.has(name)) await picture(page, name);
    }
    await page.keyboard.press("?");
    await accessible(page, `help ${dark ? "dark" : "light"}`);
    await page.context().close();
    const stranger = await open({ dark, signedIn: false });
    await stranger.goto(`${base}/runs`);
    check(stranger.url() === `${base}/login`, "who is not signed in is sent to the login");
    await accessible(stranger, "login");
    await stranger.context().close();
  }
  const past = await open();
  await past.goto(`${base}/jobs/archive`);
  check((await past.locator("#job-days a.day").count()) === 85, "a cell for each day of the past");
  const words = await past.locator("#job-days .legend").innerText();
  for (const word of ["cancelled", "failed", "late", "lost", "skipped", "succeeded", "timed out"]) check(words.includes(word), `the legend lacks ${word}: ${words}`);
  check((await past.locator("#job-days svg.days svg").count()) === 1, "one day has an outlier");
  await past.click("#days-table summary");
  check((await past.locator("#days-table tbody tr").count()) === 85, "the table has the same days");

  // A finger hits what it means, on every page.
  const touch = await open({ touch: true });
  const missed = [];
  for (const [name, path] of [...Object.entries(pages), ["not-there", "/runs/999999999"]]) {
    touch.expectsErrors = name === "not-there";
    await touch.goto(base + path);
    for (const small of await tooSmall(touch)) missed.push(`${name}: ${small}`);
    const wide = await touch.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 390, `${name} is ${wide} pixels wide on a screen of 390 that is touched`);
    const cut = await touch.$$eval("table.stack td", (cells) => cells.filter((td) => td.scrollHeight > td.clientHeight + 1).map((td) => td.innerText));
    check(cut.length === 0, `${name}: cells are taller than their row: ${cut.join(" | ")}`);
  }
  const guest = await open({ touch: true, signedIn: false });
  await guest.goto(`${base}/login`);
  for (const small of await tooSmall(guest)) missed.push(`login: ${small}`);
  check(missed.length === 0, `smaller than 44 x 44 pixels:\n${missed.join("\n")}`);

  // Grids open at their newest end.
  await eventually("both grids of a job are wider than a phone, and show their last column", async () => {
    await touch.goto(`${base}/jobs/shards`);
    const shown = await touch.$$eval(".scroll.newest", (boxes) => boxes.map((box) => {
      const [outer, last] = [box.getBoundingClientRect(), [...box.querySelectorAll("tbody td a")].map((a) => a.getBoundingClientRect().right)];
      return { over: box.scrollWidth > box.clientWidth, seen: Math.max(...last) <= outer.right + 1 };
    }));
    return shown.length === 2 && shown.every(({ over, seen }) => over && seen);
  }, 60000);

  // With a mouse, rows are 32 pixels high.
  const desk = await open();
  await desk.goto(`${base}/jobs/shards`);
  const heights = await desk.$$eval("#job-runs tbody tr", (rows) => rows.map((row) => row.getBoundingClientRect().height));
  check(heights.length > 0 && heights.every((height) => Math.abs(height - 32) <= 1), `rows are ${heights} pixels high`);

  // Heads of columns sort, without a script, and keep the filter.
  const bare = await open({ scripts: false });
  for (const [path, column, first] of [["/jobs?kind=scheduled", "State", "broken"], ["/nodes", "Slots"], ["/pools", "Waiting", "disk"]]) {
    await bare.goto(base + path);
    check((await bare.locator("th[aria-sort]").innerText()).endsWith("↑"), `${path} is sorted by name`);
    await bare.click(`th.sort a:has-text("${column}")`);
    check((await bare.locator("th[aria-sort=descending]").innerText()).startsWith(column), `${path} says that ${column} leads`);
    if (first) check((await bare.locator("tbody tr td.name a").first().innerText()) === first, `${first} leads ${bare.url()}`);
    else {
      // Which node runs most changes by the second.
      const running = (await bare.locator("tbody tr").allInnerTexts()).map((row) => Number(/(\d+) of \d+/.exec(row)[1]));
      check(running.length === 3 && running.every((n, at) => at === 0 || running[at - 1] >= n), `${running} in ${bare.url()}`);
    }
    check(bare.url().includes(path.split("?")[1] ?? "sort="), `${bare.url()} keeps the filter`);
  }
  await bare.context().close();

  if (process.env.ALL_SHOTS) {
    for (const [width, dark] of [[390, false], [390, true], [1280, false], [1280, true], [1920, false], [1920, true]]) {
      const page = await open({ touch: width === 390, width, dark });
      for (const [name, path] of Object.entries(pages)) {
        await page.goto(base + path);
        await look(page, `${name}-${width}-${dark ? "dark" : "light"}`);
      }
      await page.context().close();
    }
  }

  const narrow = await open({ narrow: true });
  for (const [name, path] of Object.entries(pages)) {
    await narrow.goto(base + path);
    const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 360, `${name} is ${wide} pixels wide on a screen of 360`);
  }
  await narrow.goto(base);
  await picture(narrow, "narrow");

  // The first load, with nothing kept: less than 120 KB on the wire.
  const first = await open();
  const session = await first.context().newCDPSession(first);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  let bytes = 0;
  session.on("Network.loadingFinished", (e) => { bytes += e.encodedDataLength; });
  await first.goto(base, { waitUntil: "load" });
  await eventually("something was loaded", async () => bytes > 1000);
  check(bytes < 120_000, `the first load is ${bytes} bytes`);
  console.log(`first load: ${bytes} bytes`);

  // Filters are in the address, and work without a script.
  const plain = await (await open()).context().browser().newContext({ javaScriptEnabled: false, storageState: await first.context().storageState() });
  const still = await plain.newPage();
  await still.goto(`${base}/runs`);
  await still.selectOption("[name=state]", "failed");
  await still.click("form.filter button");
  check(still.url().includes("state=failed"), still.url());
  check((await still.locator("#runs tbody tr").count()) >= 1, "a failed run is listed");

  // One stream per page, and none for a page that nobody sees.
  const seen = await open();
  const streams = new Set();
  seen.on("request", (request) => { if (request.url().includes("/api/v1/stream")) streams.add(request); });
  for (const end of ["requestfinished", "requestfailed"]) seen.on(end, (request) => streams.delete(request));
  const show = (visible) => seen.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, !visible);
  await seen.goto(`${base}/runs`);
  await eventually("a page listens once", async () => streams.size === 1);
  await show(false);
  await eventually("a hidden page does not listen", async () => streams.size === 0);
  await show(true);
  await eventually("it listens again", async () => streams.size === 1);

  // A page that is not there, and a database that is away, say what to do.
  const lost = await open();
  lost.expectsErrors = true;
  await lost.goto(`${base}/runs/999999999`);
  check(/there is no run/.test(await lost.locator("main").innerText()), "a run that never was");
  await lost.goto(`${base}/nowhere`);
  check(/nothing under this path/.test(await lost.locator("main").innerText()), "a path that leads nowhere");
  // The other pages would ask, too, and be told that it is away: rightly, but as an error of the console.
  for (const context of lost.context().browser().contexts()) if (context !== lost.context()) await context.close();
  await please("cut");
  await lost.goto(`${base}/`);
  await eventually("the page says that the database is away", async () => {
    const text = await lost.locator("main").innerText();
    if (/while the database is away nothing new starts/.test(text)) return true;
    await lost.goto(`${base}/`);
  });
  await accessible(lost, "the database is away");
  await please("fix");
  await eventually("and comes back by itself", async () => (await lost.locator("#verdict").count()) === 1);
});
