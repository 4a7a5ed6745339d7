// The database goes away and comes back, then the agent that serves the page dies: an open page says which, and recovers.
import { base, eventually, open, picture, please, script } from "./browser.mjs";

await script(async () => {
  const page = await open();
  page.expectsErrors = true;
  await page.goto(`${base}/`);
  const link = page.locator(".link"), box = page.locator("#outage");
  await eventually("the page is live", async () => (await link.innerText()) === "live");
  // Nothing changes meanwhile: the page asks again by itself.
  const refusals = [429, 500];
  let served = 0;
  await page.route(`${base}/`, (route) => {
    const status = refusals.shift();
    served += status ? 0 : 1;
    return status ? route.fulfill({ status, body: "" }) : route.continue();
  });
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await eventually("it asks until it is answered, and is live", async () => served > 0 && (await link.innerText()) === "live");
  await page.unroute(`${base}/`);
  await please("cut");
  await eventually("it says that the database is away", async () =>
    (await box.isVisible()) && /The database has not answered since .* until the lease of their node ends/.test(await box.innerText()));
  await picture(page, "database-away");
  await please("fix");
  await eventually("it is live again", async () => !(await box.isVisible()) && (await link.innerText()) === "live");
  await please("kill n3");
  await eventually("it says that the agent is gone, and names others", async () =>
    (await box.isVisible()) && /n3, the agent that serves this page/.test(await box.innerText()) && /n1|n2/.test(await box.innerText()));
  await please("start n3");
  await eventually("it is live once more", async () => !(await box.isVisible()) && (await link.innerText()) === "live");
});
