// A run starts, its output streams, its agent is killed, and the lanes show who took over: without a reload.
import { base, check, eventually, open, picture, please, script } from "./browser.mjs";

await script(async () => {
  const page = await open();
  await page.goto(`${base}/?window=1m`);
  // Were the page loaded anew, this would be gone.
  await page.evaluate(() => { window.stayed = true; });
  const run = await please("submit long");
  const attempt = (number) => page.locator(`#lanes-picture [data-attempt="${run}/${number}"]`);
  await eventually("the run appears in a lane", () => attempt(1).count());
  const log = await page.context().newPage();
  await log.goto(`${base}/runs/${run}`);
  await eventually("its output streams", async () => /line 5/.test(await log.locator(".log").innerText()));
  const first = await please(`holder ${run}`);
  await please(`kill ${first}`);
  await eventually("the lane says that the node is silent", async () => /silent/.test(await page.locator("#lanes-picture").innerHTML()));
  const arrow = page.locator(`#lanes-picture [data-takeover="${run}"]`);
  await eventually("an arrow leads to the one that took over", () => arrow.count());
  const second = await please(`holder ${run}`);
  check(second !== first, `${second} took over from ${first}`);
  const fence = await please(`fence ${run}`);
  check((await arrow.innerHTML()).includes(fence), `the arrow names the fence ${fence}: ${await arrow.innerHTML()}`);
  check((await attempt(1).getAttribute("data-state")) === "lost", "the first attempt is shown as lost");
  check((await attempt(1).innerHTML()).includes("url(#hatch)"), "its bar is hatched");
  check(await page.locator("#lanes-picture .gap").count(), "the lease gap is shaded");
  check(await page.evaluate(() => window.stayed), "the page was never loaded anew");
  await eventually("the verdict names the node", async () => (await page.locator("#verdict").innerText()).includes(first));
  await picture(page, "now-takeover");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "now-takeover-dark");
  await page.locator("#lanes-table summary").click();
  check(/n\d/.test(await page.locator("#lanes-table").innerText()), "the table says the same");
  await eventually("the run's page shows both attempts", async () => (await log.locator("#run-attempts tbody tr").count()) === 2);
  await eventually("the output of the heir streams there", async () => {
    await log.goto(`${base}/runs/${run}`);
    return /line 2/.test(await log.locator(".log").innerText());
  });
  check((await log.locator("#run-attempts").innerText()).includes(`took over from ${first}`), "who took over from whom");
  await picture(log, "run");
});
