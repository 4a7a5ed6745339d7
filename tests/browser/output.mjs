// Output with colours and markup, longer than one stretch: it is searched, and each line has an address.
import { accessible, base, check, eventually, open, picture, please, script } from "./browser.mjs";

await script(async () => {
  const run = await please("finished colours");
  for (const dark of [false, true]) {
    const page = await open({ dark });
    await page.goto(`${base}/runs/${run}`);
    const log = page.locator(".log");
    await eventually("its end is there", async () => /line 9100\b/.test(await log.innerText()));
    await page.click("[data-jump=start]");
    await eventually("its beginning is there", async () => (await log.locator("#L1").count()) === 1);
    check((await log.locator("#L1 .f1").innerText()) === "red <b>bold?</b>", await log.locator("#L1").innerHTML());
    check((await log.locator("#L2 .b.f2").innerText()) === "green", await log.locator("#L2").innerHTML());
    check((await log.locator("#L3 .k4").count()) === 1, "a background");
    const second = await log.locator("#L2").innerText();
    check(second.includes("<script>window.evil = 1</script><img src=x onerror=\"window.evil = 1\">"), second);
    check(!second.includes("title"), `escape sequences are left out: ${second}`);
    check((await log.locator("script, img, b").count()) === 0, "output is never markup");
    check((await page.evaluate(() => window.evil)) === undefined, "output is never run");
    await accessible(page, `output ${dark ? "dark" : "light"}`);
    await picture(page, dark ? "output-dark" : "output");

    await page.fill("#log input[name=q]", "ERROR 1234");
    await page.keyboard.press("Enter");
    await page.waitForURL(`${base}/runs/${run}/matches?q=ERROR+1234`);
    check((await page.locator("table.matches tbody tr").count()) === 1, "one line has the text");
    check((await page.locator("table.matches tbody").innerText()).includes("9001"), "its number");
    await accessible(page, `matches ${dark ? "dark" : "light"}`);
    await page.click("table.matches tbody a");
    await page.waitForURL(`${base}/runs/${run}?attempt=1&line=9001#L9001`);
    const at = page.locator(".log .at");
    await eventually("the line is marked", async () => (await at.innerText()).includes("ERROR 1234 here"));
    const seen = async () => at.evaluate((line) => {
      const [box, own] = [line.closest(".log").getBoundingClientRect(), line.getBoundingClientRect()];
      return own.top >= box.top && own.bottom <= box.bottom;
    });
    check(await seen(), "the line is in view");
    await page.context().close();
  }

  // An address of a line in the middle, of which neither end is loaded.
  const page = await open();
  await page.goto(`${base}/runs/${run}?attempt=1&line=4500#L4500`);
  const at = page.locator(".log .at");
  await eventually("the line is marked", async () => (await at.innerText()).startsWith("line 4500 "));
  await page.click(".log a[data-n='4505']");
  check(page.url() === `${base}/runs/${run}?attempt=1&line=4505#L4505`, page.url());
  check((await at.innerText()).startsWith("line 4505 "), await at.innerText());
  const ordered = () => page.evaluate(() => {
    const numbers = [...document.querySelectorAll(".log a.no")].map((a) => Number(a.dataset.n));
    return numbers.length > 0 && numbers.every((n, index) => n === numbers[0] + index);
  });
  for (let n = 0; n < 20; n++) {
    await page.locator(".log").evaluate((box, up) => { box.scrollTop = up ? 0 : box.scrollHeight; }, n < 10);
    await page.waitForTimeout(30);
    check(await ordered(), "numbers go on from stretch to stretch");
  }
  await page.locator("[data-wrap]").uncheck();
  check(page.url().includes("wrap=off"), page.url());
  const space = () => page.locator(".log .ln").first().evaluate((line) => getComputedStyle(line).whiteSpace);
  check((await space()) === "pre", await space());
  await page.reload();
  await eventually("it is remembered", async () => !(await page.locator("[data-wrap]").isChecked()) && (await space()) === "pre");

  // Without a script.
  const state = await page.context().storageState();
  const plain = await (await page.context().browser().newContext({ javaScriptEnabled: false, storageState: state })).newPage();
  await plain.goto(`${base}/runs/${run}?attempt=1&line=4500`);
  await plain.click("noscript a");
  check((await plain.locator("#L4500").innerText()).startsWith("line 4500 "), "the line is there without a script");
  await plain.click("text=Later");
  check((await plain.locator("#L4500").count()) === 0 && (await plain.locator(".log .ln").count()) > 100, "the next stretch");
  await plain.click("text=Begin");
  check((await plain.locator("#L1 .f1").innerText()) === "red <b>bold?</b>", "colours");
  await plain.goto(`${base}/jobs/colours`);
  await plain.fill("input[name=q]", "error 1234");
  await plain.check("input[name=ignore_case]");
  await plain.click("form[role=search] button");
  check((await plain.locator("table.matches tbody tr").count()) === 1, "a job's runs are searched");
  await plain.fill("input[name=q]", "no line has this");
  await plain.click("form[role=search] button");
  check((await plain.locator("main").innerText()).includes("No line has this text."), "nothing is found");

  const narrow = await open({ narrow: true });
  for (const path of [`/runs/${run}`, `/runs/${run}/log`, `/runs/${run}/matches?q=line`, "/jobs/colours/matches?q=line"]) {
    await narrow.goto(base + path);
    const wide = await narrow.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 360, `${path} is ${wide} pixels wide on a screen of 360`);
  }
});
