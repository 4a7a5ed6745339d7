// Run now, pause, cancel: by clicking, then by keys alone.
import { base, check, eventually, open, picture, please, script } from "./browser.mjs";

await script(async () => {
  const page = await open();
  await page.goto(`${base}/jobs/greet`);
  await page.click("text=Run now");
  const box = page.locator("#ask");
  await eventually("the dialog says what it would do", async () => /What it does/.test(await box.innerText()));
  check((await box.innerText()).includes("farmhand job run greet"), "it shows its command");
  await page.fill("#ask [name='p.whom']", "the world");
  await eventually("the command follows what is typed", async () => (await box.innerText()).includes("-p 'whom=the world'"));
  await picture(page, "run-now");
  await box.locator("button.main").click();
  await page.waitForURL(/\/runs\/\d+$/);
  await eventually("its output is there", async () => /hello the world/.test(await page.locator(".log").innerText()));
  await eventually("it succeeded, without a reload", async () => /succeeded/.test(await page.locator("#run-head").innerText()));
  check(/api:|browser/.test(await page.locator("#run-facts").innerText()), "it says who asked");

  // The browser's own reload of an answered form must not run it again.
  const before = await please("runs greet");
  await page.reload();
  check((await please("runs greet")) === before, "a reload runs nothing");

  await page.goto(`${base}/jobs/hourly`);
  await page.click("text=Pause");
  await page.fill("#ask [name=reason]", "stock taking");
  await eventually("the command has the reason", async () => /--reason/.test(await box.innerText()));
  await box.locator("button.main").click();
  await eventually("it is paused", async () => /paused/.test(await page.locator("#job-head").innerText()));
  check(/stock taking/.test(await page.locator("#job-when").innerText()), "with its reason");
  await page.click("text=Resume");
  await eventually("a resumption is previewed", async () => /next run/.test(await box.innerText()));
  await box.locator("button.main").click();
  await eventually("it is enabled", async () => /enabled/.test(await page.locator("#job-head").innerText()));

  // What fails leads the open page, without a reload.
  await page.goto(base);
  const verdict = page.locator("#verdict");
  await please("fail hourly");
  await eventually("it leads", async () => /Attention:\s+1 job is failing: hourly/.test(await verdict.innerText()));

  // Without a script a page asks.
  const plain = await page.context().browser().newContext({ javaScriptEnabled: false, storageState: await page.context().storageState() });
  const bare = await plain.newPage();
  await bare.goto(`${base}/jobs/hourly`);
  await bare.click("text=Pause");
  await bare.waitForURL(/act\/pause/);
  check(/What it does/.test(await bare.locator("main").innerText()), "without a script a page asks");
  await bare.locator("main button.main").click();
  await bare.waitForURL(`${base}/jobs/hourly`);
  check(/paused/.test(await bare.locator("#job-head").innerText()), "it is paused");
  await bare.click("text=Resume");
  await bare.locator("main button.main").click();
  await bare.waitForURL(`${base}/jobs/hourly`);
  check(/failing/.test(await bare.locator("#job-head").innerText()), "it is as it was");
  await plain.close();

  // By keys alone, from the first page to a cancelled run.
  const run = await please("submit long");
  await page.goto(base);
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.waitForURL(`${base}/jobs`);
  await page.keyboard.press("/");
  await page.keyboard.type("long");
  await page.keyboard.press("Enter");
  await page.waitForURL(/name=long/);
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await page.waitForURL(`${base}/runs`);
  await page.keyboard.press("j");
  check((await page.evaluate(() => document.activeElement.textContent)) === run, "j goes to the first row");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${base}/runs/${run}`);
  await page.keyboard.press("?");
  check(await page.locator("#help").isVisible(), "? explains the keys");
  await page.keyboard.press("Escape");
  await tabTo(page, "Cancel");
  await page.keyboard.press("Enter");
  await eventually("the dialog opens", async () => /What it does/.test(await box.innerText()));
  await tabTo(page, "Cancel the run");
  await page.keyboard.press("Enter");
  await eventually("it is cancelled, without a reload", async () => /cancelled/.test(await page.locator("#run-head").innerText()));

  // What may run twice is asked twice.
  const done = await please("done greet");
  await page.goto(`${base}/act/retry?run=${done}`);
  check(await page.locator("[name=sure]").count(), "running a success again has a box to tick");
  const counted = await please("runs greet");
  await page.evaluate(() => document.querySelector("[name=sure]").remove());
  page.expectsErrors = true;
  await page.locator("main button.main").click();
  await eventually("without it nothing is done", async () => /twice/.test(await page.locator("main").innerText()));
  check((await please("runs greet")) === counted, "nothing ran");
});

async function tabTo(page, words) {
  for (let n = 0; n < 80; n++) {
    await page.keyboard.press("Tab");
    if ((await page.evaluate(() => document.activeElement.textContent.trim())) === words) return;
  }
  throw new Error(`no way by Tab to ${words}`);
}
