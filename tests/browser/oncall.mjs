// What an engineer on call does at night, with the clicks that it takes at most from the first page. Two more take none (main.rs): an open page says
// that the database or its own agent is away, and recovers; a takeover shows without a reload.
import { base, check, eventually, open, please, script } from "./browser.mjs";

const counted = [];

/** Does it from the first page, and counts its clicks: at most so many. */
async function scenario(page, what, most, work) {
  await page.goto(base);
  let clicks = 0;
  const click = async (target) => {
    clicks += 1;
    await (typeof target === "string" ? page.locator(target) : target).first().click();
  };
  await work(click);
  check(clicks <= most, `${what}: ${clicks} clicks, at most ${most} are wanted`);
  counted.push(`${what}: ${clicks}`);
}

const text = (page, where = "main") => page.locator(where).innerText();

await script(async () => {
  const page = await open();

  await scenario(page, "a job fails: which, and its output", 2, async (click) => {
    await eventually("the verdict leads", async () => /broken/.test(await text(page, "#verdict")));
    await click("#verdict h1 a");
    await eventually("the job says why", async () => /failing/.test(await text(page)));
    await click("a[href^='/runs/']");
    await eventually("the run has its output", async () => /the disk is full/.test(await text(page)));
  });

  await scenario(page, "run again what failed last night, with a preview", 3, async (click) => {
    const before = Number(await please("runs broken"));
    await click("#unwell a:has-text('Last 12 hours')");
    await click("button:has-text('Run these again')");
    check(/of broken are run again|run of broken are run again/.test(await text(page)), "it says what it would do");
    await click("main button.main");
    await eventually("there are new runs", async () => Number(await please("runs broken")) > before);
  });

  await scenario(page, "cancel two hundred runs that wait, with a preview", 3, async (click) => {
    await please("queue 200 held");
    await click("a:has-text('All queued and running')");
    await click("button:has-text('Cancel these')");
    check(/20\d runs/.test(await text(page)), "it counts them");
    await click("main button.bad");
    await eventually("none of them waits", async () => (await please("due held")) === "0");
  });

  await scenario(page, "why it does not run: no node has the label", 2, async (click) => {
    await please("submit nowhere");
    await click("nav a:has-text('Jobs')");
    await click("a:has-text('nowhere')");
    await eventually("it says which label fits no node", async () => /gpu/.test(await text(page)));
  });

  await scenario(page, "who changed a job", 2, async (click) => {
    await click("nav a:has-text('Jobs')");
    await click("a:has-text('broken')");
    await eventually("its revisions say who", async () => /@/.test(await text(page, "#definition")));
  });

  await scenario(page, "the jobs of a label", 2, async (click) => {
    await click("nav a:has-text('Jobs')");
    await page.fill("input[name=label]", "gpu=yes");
    await click("form.filter button");
    await eventually("one job is left", async () => (await page.locator("tr[data-row]").count()) === 1);
  });

  await scenario(page, "a node died: what it held", 2, async (click) => {
    const run = await please("submit long");
    const holder = await eventually("it runs", async () => (await please(`holder ${run}`)) || false);
    await please(`kill ${holder}`);
    await eventually("the verdict names the node", async () => {
      await page.goto(base);
      return new RegExp(holder).test(await text(page, "#verdict"));
    }, 60000);
    await click(`#verdict a:has-text('${holder}')`);
    await eventually("the node's page says that it is lost", async () => /lost|expired/.test(await text(page)));
    await please(`start ${holder}`);
  });

  const hangs = await please("slow sleeper");
  const longer = `#verdict a:has-text('run ${hangs} ')`;

  await scenario(page, "it runs for longer than usual: which, and what is usual", 1, async (click) => {
    await eventually("the first page names the run", async () => {
      await page.goto(base);
      return (await page.locator(longer).count()) > 0;
    }, 60000);
    await click(longer);
    await eventually("it says what is usual", async () => /longer than usual: 95 of 100/.test(await text(page)));
  });

  await scenario(page, "a command hangs: found from the first page, and ended", 3, async (click) => {
    await click(longer);
    await click("#run-head button:has-text('Cancel'), #run-head a:has-text('Cancel')");
    await click("#ask button.bad, #ask button.main");
    await eventually("it has ended", async () => (await please(`state ${hangs}`)) === "cancelled", 30000);
    await eventually("its page says by whom", async () => /Cancelled by/.test(await text(page)));
  });

  await scenario(page, "a node comes and goes: which, and how often", 1, async (click) => {
    await please("flap n1");
    await eventually("the verdict names it", async () => {
      await page.goto(base);
      return /n1, lost \d+ times/.test(await text(page, "#verdict"));
    }, 30000);
    await click("#verdict a:has-text('flapping')");
    await eventually("the node's page", async () => /n1/.test(await text(page, "h1")));
  });

  await please("turns moody");
  await scenario(page, "a job succeeds and fails by turns: its last 30 ends, in the list of jobs", 1, async (click) => {
    await click("nav a:has-text('Jobs')");
    const marks = page.locator("tr[data-row]:has-text('moody') .strip");
    await eventually("its last ends stand in its row", async () => (await marks.count()) === 1);
    const ends = await marks.first().getAttribute("aria-label");
    check(/failed/.test(ends) && /succeeded/.test(ends), `they alternate: ${ends}`);
  });

  await scenario(page, "a pool is full: who has its place, who waits", 2, async (click) => {
    const holds = await please("submit archive");
    await eventually("it runs", async () => (await please(`holder ${holds}`)) || false);
    const waits = await please("submit archive");
    await click("nav a:has-text('Pools')");
    await click("a:has-text('tape')");
    await eventually("it names both", async () => {
      const told = await text(page);
      return told.includes(holds) && told.includes(waits);
    });
  });

  await scenario(page, "find a text in the output of a job's last runs, and open the line", 4, async (click) => {
    await click("nav a:has-text('Jobs')");
    await click("a:has-text('broken')");
    await page.fill("input[name=q]", "disk is full");
    await click("form[role=search] button");
    await click("main td a[href*='line=']");
    await eventually("the line is shown", async () => /the disk is full/.test(await text(page, ".log")));
  });

  await scenario(page, "why it did not run last night, for an instant that is typed", 3, async (click) => {
    await click("nav a:has-text('Jobs')");
    await click("a:has-text('nightly')");
    const night = new Date(Date.now() - 86400000).toISOString().slice(0, 10);
    await page.fill("input[name=at]", `${night}T03:00`);
    await click("form:has(input[name=at]) button");
    await eventually("it says what became of that instant", async () => (await text(page, "#job-explain")).includes(night));
  });

  for (const line of counted) console.log(line);
});
