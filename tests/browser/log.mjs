// Ten megabytes of output: a window of a few blocks, wherever one looks.
import { base, check, eventually, open, picture, please, script } from "./browser.mjs";

const MOST = 700_000;

await script(async () => {
  const run = await please("finished flood");
  const page = await open();
  const begun = Date.now();
  await page.goto(`${base}/runs/${run}`);
  const log = page.locator(".log");
  await eventually("its end is there", async () => /line 99999\b/.test(await log.innerText()), 60000);
  const took = Date.now() - begun;
  check(took < 30000, `the end of ten megabytes took ${took} ms`);
  const held = () => log.evaluate((box) => box.textContent.length);
  check((await held()) < MOST, "not all of it is in the page");
  check(/of 1[0-9.]+ MiB/.test(await page.locator("[data-where]").innerText()), await page.locator("[data-where]").innerText());
  await page.click("[data-jump=start]");
  await eventually("its beginning is there", async () => /line 0\b/.test(await log.innerText()));
  let seen = 0;
  for (let n = 0; n < 40; n++) {
    await log.evaluate((box) => { box.scrollTop = box.scrollHeight; });
    await page.waitForTimeout(40);
    seen = Math.max(seen, await held());
  }
  check(seen < MOST, `scrolling on keeps ${seen} characters at most`);
  const first = await log.evaluate((box) => Number(/line (\d+)/.exec(box.textContent)[1]));
  check(first > 1000, `what was scrolled past is gone from the page: it begins with line ${first}`);
  await eventually("scrolling back brings it again", async () => {
    await log.evaluate((box) => { box.scrollTop = 0; });
    return /line 0\b/.test(await log.innerText());
  }, 30000);
  await picture(page, "log");
  const whole = await page.evaluate(async (href) => (await (await fetch(href)).text()).length, `${base}/runs/${run}/log.txt?attempt=1`);
  check(whole >= 10_000_000, `the whole of it can be saved: ${whole}`);
});
