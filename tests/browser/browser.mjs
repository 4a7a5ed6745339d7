// What every script here starts with: a browser that is signed in, and that notes whatever goes wrong.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const require = createRequire(`${process.env.BROWSER_TOOLS}/package.json`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const base = process.env.BASE;
const token = process.env.TOKEN;
const shots = process.env.SHOTS;

const replies = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
/** Asks the test for something that only it can do, as killing an agent; answers with what it says. */
export async function please(what) {
  console.log(`@${what}`);
  return (await replies.next()).value;
}

export function check(good, what) {
  if (!good) throw new Error(what);
}

/** Looks until it is true, at most for so long. */
export async function eventually(what, look, bound = 20000) {
  const end = Date.now() + bound;
  let last;
  for (;;) {
    try { last = await look(); if (last) return last; } catch (e) { last = e.message; }
    if (Date.now() > end) throw new Error(`not within ${bound} ms: ${what}: ${last}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

let browser;
const wrong = [];

/** A page, signed in. Notes console errors, failed requests and requests that leave the farm. */
export async function open({ dark = false, narrow = false, touch = false, width = 1280, signedIn = true, scripts = true } = {}) {
  browser ||= await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"],
  });
  const context = await browser.newContext({
    viewport: narrow ? { width: 360, height: 740 } : { width: touch ? 390 : width, height: 860 },
    hasTouch: touch,
    isMobile: touch,
    javaScriptEnabled: scripts,
    colorScheme: dark ? "dark" : "light",
  });
  context.setDefaultTimeout(15000);
  const page = await context.newPage();
  const note = (text) => wrong.push(`${page.url()}: ${text}`);
  page.on("console", (m) => { if (["error", "warning"].includes(m.type()) && !page.expectsErrors) note(m.text()); });
  page.on("pageerror", (e) => note(e.message));
  page.on("request", (r) => { if (!r.url().startsWith(base) && !r.url().startsWith("data:")) note(`asks ${r.url()}`); });
  page.on("response", (r) => { if (r.status() >= 500 && !page.expectsErrors) note(`${r.status()} of ${r.url()}`); });
  if (signedIn) await signIn(page);
  return page;
}

export async function signIn(page) {
  await page.goto(`${base}/login`);
  await page.fill("#token", token);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${base}/`);
}

/** No violation that axe calls serious or critical. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const result = await axe.run(document, { resultTypes: ["violations"] });
    return result.violations.filter((v) => ["serious", "critical"].includes(v.impact))
      .map((v) => `${v.impact} ${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.target} (${n.any[0]?.message ?? n.failureSummary})`).join("; ")}`);
  });
  check(found.length === 0, `${what}: ${found.join("\n")}`);
}

/**
 * What a finger cannot hit: narrower or lower than 44 pixels (WCAG 2.5.5). Links within a sentence are left out, and those within
 * a picture, which a table repeats; and the numbers of lines of output, which stand as close as the lines.
 */
export async function tooSmall(page) {
  return page.evaluate(() => {
    for (const details of document.querySelectorAll("details")) details.open = true;
    const inSentence = (el) => {
      const block = el.closest("p, li, dd, .legend, .callout, footer, td.say");
      return el.matches("a") && block && block.textContent.replace(el.textContent, "").match(/\p{L}{2,}/u);
    };
    return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")]
      .filter((el) => el.checkVisibility({ visibilityProperty: true }) && !el.closest("svg, .sr, .skip, .ln") && !inSentence(el))
      .map((el) => [el, (el.matches("[type=checkbox], [type=radio]") && el.closest("label") || el).getBoundingClientRect()])
      .filter(([, box]) => box.width > 1 && (box.width < 43.9 || box.height < 43.9))
      .map(([el, box]) => `${el.localName} "${(el.textContent || el.name).trim().slice(0, 30)}" in ${el.parentNode.localName}.${el.parentNode.className}: ${box.width.toFixed()} x ${box.height.toFixed()}`);
  });
}

/** A picture for the documents, when somebody wants them anew. */
export async function picture(page, name, options = {}) {
  if (shots) await page.screenshot({ path: `${shots}/${name}.png`, ...options });
}

/** The whole page for whoever looks at all of them: in a directory that is not committed. */
export async function look(page, name) {
  if (process.env.ALL_SHOTS) await page.screenshot({ path: `${process.env.ALL_SHOTS}/${name}.png`, fullPage: true });
}

/** Runs the script to its end, and fails on whatever was noted on the way. */
export async function script(work) {
  let failed;
  try {
    await work();
    check(wrong.length === 0, `noted on the way:\n${wrong.join("\n")}`);
  } catch (e) {
    failed = e;
    for (const context of browser?.contexts() ?? []) {
      for (const page of context.pages()) {
        const text = await page.evaluate(() => document.querySelector("main")?.innerText ?? "").catch(() => "");
        console.error(`--- ${page.url()}\n${text.slice(0, 3000)}`);
      }
    }
    if (wrong.length) console.error(`noted on the way:\n${wrong.join("\n")}`);
    console.error(e.stack);
  }
  await browser?.close();
  process.exit(failed ? 1 : 0);
}
