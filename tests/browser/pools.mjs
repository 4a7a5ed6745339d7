// Who has a place of a pool, who waits for it, and the way from the one that waits to the one that holds.
import { accessible, base, check, eventually, open, please, script } from "./browser.mjs";

await script(async () => {
  const holder = await please("submit hold");
  await eventually("the first run has the place", async () => (await please(`holder ${holder}`)) !== "");
  const waiter = await please("submit want");
  const page = await open();
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await page.waitForURL(`${base}/pools`);
  await eventually("the list shows the place and the wait", async () =>
    /1 of 1.*\b1\b/s.test(await page.locator("#pool-db").innerText()));
  await accessible(page, "pools");
  await page.click("#pool-db td.name a");
  await page.waitForURL(`${base}/pools/db`);
  await accessible(page, "a pool");
  check((await page.locator(`#pool-holders a[href="/runs/${holder}"]`).count()) === 1, "the holder is named");
  check(/n[12]/.test(await page.locator("#pool-holders").innerText()), "with its node");
  await page.click(`#pool-waiters a[href="/runs/${waiter}"]`);
  await page.waitForURL(`${base}/runs/${waiter}`);
  const waits = page.locator("#waits");
  check(/waits for a place in pool db/.test(await waits.innerText()), await waits.innerText());
  check((await waits.locator('a[href="/pools/db"]').count()) === 1, "its reason leads to the pool");
  await waits.locator(`a[href="/runs/${holder}"]`).first().click();
  await page.waitForURL(`${base}/runs/${holder}`);

  // A day of a job leads to its runs.
  const done = await please("finished quick");
  await page.goto(`${base}/jobs/quick`);
  await page.click("#job-days a.day");
  await page.waitForURL(/\/runs\?job=quick&since=/);
  check((await page.locator(`#run-${done}`).count()) === 1, "the run of the day is listed");
});
