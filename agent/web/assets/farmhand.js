// What the page does beyond HTML: it stays current, answers keys, asks in dialogs, and windows long logs.
// Everything works without it by links and forms.
"use strict";
(() => {
  const $ = (css, within = document) => within.querySelector(css);
  const $$ = (css, within = document) => [...within.querySelectorAll(css)];
  const typing = (e) => e.target.closest("input, textarea, select, [contenteditable]");

  // ---- Times: the server says instants, the words follow the clock. Its clock, not this machine's.
  const skew = Date.parse(document.body.dataset.now || "") - Date.now() || 0;
  const now = () => Date.now() + skew;
  function span(ms) {
    const s = Math.round(ms / 1000);
    if (s < 60) return `${s} s`;
    const [d, h, m] = [Math.floor(s / 86400), Math.floor(s / 3600) % 24, Math.floor(s / 60) % 60];
    if (d > 0) return h ? `${d} d ${h} h` : `${d} d`;
    if (h > 0) return m ? `${h} h ${m} min` : `${h} h`;
    return s < 600 && s % 60 ? `${m} min ${s % 60} s` : `${m} min`;
  }
  function tell(time) {
    const ms = now() - Date.parse(time.dateTime);
    const kind = time.dataset.rel;
    const text = kind === "since" ? span(Math.max(0, ms)) : ms >= 0 ? `${span(ms)} ago` : `in ${span(-ms)}`;
    if (time.textContent !== text) time.textContent = text;
  }
  const times = (within = document) => $$("time[data-rel]", within).forEach(tell);

  // ---- Fresh content: the same address is fetched again and what differs is exchanged in place,
  // so that focus, scroll and opened details stay.
  const KEEP = new Set(["open"]);
  function morph(old, fresh) {
    if (old.nodeName !== fresh.nodeName || (old.id || "") !== (fresh.id || "")) return void old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    if (old.hasAttribute("data-keep")) return;
    if (old.matches("time[data-rel]") && old.dateTime === fresh.dateTime) return;
    if (old.matches("input, select, textarea") && old === document.activeElement) return;
    for (const { name, value } of [...fresh.attributes]) if (!KEEP.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!KEEP.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const known = child.id && $$(`#${CSS.escape(child.id)}`, old).find((n) => n.parentNode === old);
      if (known && known !== at) old.insertBefore(known, at);
      else if (!known && at && at.id) { old.insertBefore(child, at); continue; }
      const here = known || at;
      if (!here) { old.append(child); continue; }
      at = here.nextSibling;
      morph(here, child);
    }
    while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
  }

  let fetching = false, again = false, last = 0, later = 0, pause = 0;
  async function refresh(anyway) {
    if (document.hidden || !($("[data-live]") || since || anyway)) return;
    if (fetching) return void (again = true);
    fetching = true;
    last = Date.now();
    try {
      const reply = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
      if (reply.ok) {
        pause = 0;
        const page = new DOMParser().parseFromString(await reply.text(), "text/html");
        for (const part of $$("[data-live]")) {
          const fresh = page.getElementById(part.id);
          if (fresh) morph(part, fresh);
        }
        times();
        mark();
        current();
        document.dispatchEvent(new Event("farm:fresh"));
      } else if (reply.type === "opaqueredirect" || reply.status === 401) location.reload();
      else if (reply.status === 503 && (await reply.text()).includes(" data-away")) state("nodb");
      else {
        state("away");
        // Too many requests, a database that is slow, or a defect: no message of the stream says that it is over.
        if (reply.status === 429 || reply.status >= 500) {
          pause = Math.min(30000, pause * 2 || 2000);
          clearTimeout(later);
          later = setTimeout(() => refresh(anyway), pause);
        }
      }
    } catch { state("gone"); }
    fetching = false;
    if (again) { again = false; soon(); }
  }
  let timer = 0;
  function soon() {
    if (!timer) timer = setTimeout(() => { timer = 0; refresh(); }, Math.max(80, 900 - (Date.now() - last)));
  }

  // ---- One stream per page; none while nobody looks.
  let stream = null;
  const WORDS = { live: "live", away: "reconnecting", nodb: "database away", gone: "agent away", paused: "paused" };
  function state(word) {
    const link = $(".link");
    if (link && link.dataset.state !== word) { link.dataset.state = word; link.textContent = WORDS[word]; }
    outage(word === "nodb" || word === "gone" ? word : "");
  }
  function current() { listen(); state(stream && stream.readyState === EventSource.OPEN ? "live" : "away"); }

  // ---- An outage: what is away, since when, and that this page is old. It is tried again until it is over.
  let since = 0, retry = 0, others = [];
  function outage(word) {
    const box = $("#outage");
    if (!box) return;
    if (!word) { since = 0; box.hidden = true; clearTimeout(retry); retry = 0; return; }
    since = since || now();
    const at = new Date(since).toISOString().slice(11, 19);
    const text = word === "nodb"
      ? `The database has not answered since ${at} UTC; this page is as old; ${box.dataset.meanwhile}. The farm recovers without an operator.`
      : `${box.dataset.agent}, the agent that serves this page, has not answered since ${at} UTC; this page is as old. The farm may be well: open the page at another agent${others.length ? `, such as ${others.join(" or ")}` : ""}.`;
    if (box.textContent !== text) box.textContent = text;
    box.hidden = false;
    if (!retry) retry = setTimeout(() => { retry = 0; refresh(); }, 2000);
  }
  // Asked for while the agent answers: afterwards nobody would say.
  async function meet() {
    const box = $("#outage");
    if (!box || document.hidden || since || !document.body.dataset.stream) return;
    try {
      const reply = await fetch("/api/v1/nodes?state=ready&limit=4");
      if (reply.ok) others = (await reply.json()).items.map((n) => n.address).filter((a) => a !== box.dataset.agent).slice(0, 3);
    } catch { /* the next time */ }
  }
  function listen() {
    if (stream || document.hidden || !document.body.dataset.stream) return;
    stream = new EventSource(document.body.dataset.stream);
    stream.onopen = () => { if (!since) state("live"); };
    stream.onerror = () => {
      if (!since) state("away");
      // What is away, the page's own address tells.
      soon();
      // A refused stream stays closed by itself; the farm may only be busy.
      if (stream && stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(listen, 5000); }
    };
    stream.onmessage = soon;
    // Whether the database is away or only slow, the page's own address tells.
    stream.addEventListener("changed", (e) => { if (JSON.parse(e.data).away) refresh(true); else soon(); });
    // The stream does not tell what changed between the page's making and this event.
    stream.addEventListener("hello", soon);
    stream.addEventListener("resync", soon);
  }
  function hush() { if (stream) { stream.close(); stream = null; state("paused"); } }
  document.addEventListener("visibilitychange", () => { if (document.hidden) hush(); else { listen(); refresh(); } });
  addEventListener("pagehide", hush);
  meet();
  setInterval(meet, 60000);
  addEventListener("pageshow", (e) => { if (e.persisted) { listen(); refresh(); } });

  // ---- Dialogs: an action's page, shown above this one.
  async function ask(address) {
    const box = $("#ask");
    const from = document.activeElement;
    const reply = await fetch(address, { headers: { accept: "text/html" } });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const inner = $(".ask .inner", page);
    if (!inner) return void (location.href = address);
    box.replaceChildren(inner);
    box.showModal();
    (inner.querySelector("input:not([type=hidden]), textarea, button.main") || box).focus();
    box.onclose = () => { box.replaceChildren(); if (from) from.focus(); };
  }
  document.addEventListener("click", (e) => {
    const at = (css) => e.target.closest && e.target.closest(css);
    const opener = at("a[data-ask]");
    if (opener && !e.ctrlKey && !e.metaKey && !e.shiftKey) {
      e.preventDefault();
      ask(opener.href).catch(() => (location.href = opener.href));
    } else if (at("[data-close]")) {
      const box = at("dialog");
      if (box) { e.preventDefault(); box.close(); }
    } else if (at("[data-help]")) $("#help").showModal();
    else if (at("[data-copy]")) {
      const button = at("[data-copy]");
      const text = $("code", button.parentNode).textContent;
      const said = (word) => { button.textContent = word; setTimeout(() => (button.textContent = "Copy"), 1500); };
      (navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject()).then(() => said("Copied"), () => {
        getSelection().selectAllChildren($("code", button.parentNode));
        said("Selected");
      });
    }
  });
  // A second click on the way must not become a second run.
  document.addEventListener("submit", (e) => {
    if (e.target.method !== "post") return;
    if (e.target.dataset.sent) return void e.preventDefault();
    e.target.dataset.sent = "1";
    $$("button", e.target).forEach((b) => b.setAttribute("aria-disabled", "true"));
  });
  // What is typed into an action shows in its command line.
  document.addEventListener("input", (e) => {
    const form = e.target.closest("form[data-preview]");
    if (!form) return;
    const asked = form.dataset.asked = String(Date.now());
    setTimeout(async () => {
      if (form.dataset.asked !== asked) return;
      const query = new URLSearchParams(new FormData(form));
      const reply = await fetch(`${form.dataset.preview}?${query}`, { headers: { accept: "text/html" } });
      const page = new DOMParser().parseFromString(await reply.text(), "text/html");
      for (const part of $$("[data-previewed]", form.closest(".inner"))) {
        const fresh = page.getElementById(part.id);
        if (fresh) part.replaceWith(fresh);
      }
    }, 250);
  });

  // ---- Keys
  let row = -1, going = 0;
  const rows = () => $$("tr[data-row]").filter((r) => r.offsetParent);
  function mark() { const all = rows(); all.forEach((r, n) => r.classList.toggle("at", n === row)); }
  function step(by) {
    const all = rows();
    if (!all.length) return;
    row = Math.max(0, Math.min(all.length - 1, row + by));
    mark();
    all[row].scrollIntoView({ block: "nearest" });
    const link = $("a", all[row]);
    if (link) link.focus({ preventScroll: true });
  }
  const GO = { n: "/", j: "/jobs", r: "/runs", o: "/nodes", p: "/pools", e: "/events" };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e) || $("dialog[open]")) return;
    if (going && GO[e.key]) { going = 0; location.href = GO[e.key]; return; }
    going = 0;
    if (e.key === "g") { going = setTimeout(() => (going = 0), 1500); return; }
    if (e.key === "/") {
      const field = $("[data-filter]");
      if (field) { e.preventDefault(); field.focus(); field.select && field.select(); }
    } else if (e.key === "?") $("#help").showModal();
    else if (e.key === "j") step(1);
    else if (e.key === "k") step(-1);
  });

  // ---- Logs: a window of a few blocks over output of any length. A block is what the page of the output shows: lines with
  // numbers, made by the server.
  const BLOCKS = 6, BLOCK = 65536;
  class Log {
    constructor(box) {
      this.box = box; this.base = box.dataset.log; this.blocks = []; this.end = 0; this.follow = true; this.busy = false;
      this.running = box.dataset.running === "true"; this.where = $("[data-where]", box.parentNode);
      this.button = $("[data-follow]", box.parentNode);
      box.addEventListener("scroll", () => this.scrolled(), { passive: true });
      box.addEventListener("click", (e) => this.clicked(e));
      if (this.button) this.button.onclick = () => this.set(!this.follow, true);
      for (const jump of $$("[data-jump]", box.parentNode)) jump.onclick = () => this.jump(jump.dataset.jump);
      this.jump(box.dataset.at ? Number(box.dataset.at) : "end");
      const beat = setInterval(() => {
        if (!box.isConnected) clearInterval(beat);
        else if (this.running && this.follow && !document.hidden) this.newer();
      }, 1000);
    }
    set(follow, act) {
      this.follow = follow;
      if (this.button) this.button.setAttribute("aria-pressed", String(follow));
      if (follow && act) this.jump("end");
    }
    async load(query) {
      const reply = await fetch(`${this.base}&bare=true${query}`);
      if (!reply.ok) throw new Error(reply.status);
      const el = $(".blk", new DOMParser().parseFromString(await reply.text(), "text/html")), { from, to, end, complete, line, nextLine } = el.dataset;
      this.end = Number(end); this.running = complete !== "true";
      return { el, from: Number(from), to: Number(to), line, nextLine };
    }
    // The number of the line, where the server has told it.
    place(name, byte, line) { return `&${name}=${byte}${line ? `&at=${line}` : ""}`; }
    // The line that is being written is shown, and comes again with what is newer.
    open(block) { return block && $(".open", block.el); }
    async once(work) {
      if (this.busy) return;
      this.busy = true;
      try { await work(); } catch { /* the next look tries again */ }
      this.busy = false;
      this.tell();
    }
    jump(to) {
      return this.once(async () => {
        const block = await this.load(to === "end" ? "" : to === "start" ? this.place("from", 0, 1) : `&line=${to}`);
        this.blocks = [block];
        this.box.replaceChildren(block.el);
        this.set(to === "end", false);
        const line = this.mark(to);
        if (line) line.scrollIntoView({ block: "center" });
        else this.box.scrollTop = to === "end" ? this.box.scrollHeight : 0;
      });
    }
    mark(number) {
      for (const old of $$(".at", this.box)) old.classList.remove("at");
      const line = $(`#L${number}`, this.box);
      if (line) line.classList.add("at");
      return line;
    }
    // A line's number makes the address one of this line.
    clicked(e) {
      const link = e.target.closest("a.no");
      if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
      e.preventDefault();
      history.replaceState(null, "", link.href);
      this.set(false);
      this.mark(link.dataset.n);
    }
    newer() {
      return this.once(async () => {
        const tail = this.blocks.at(-1), open = this.open(tail);
        const block = await this.load(tail ? this.place("from", tail.to, tail.nextLine) : this.place("from", 0, 1));
        if (!block.el.children.length || (open && block.to === tail.to && block.el.textContent === open.textContent)) return;
        if (open) open.remove();
        this.blocks.push(block);
        this.box.append(block.el);
        // Many small blocks of a slow writer become one, up to a block's size.
        if (tail && block.to - tail.from < BLOCK) {
          tail.el.append(...block.el.childNodes);
          tail.to = block.to; tail.nextLine = block.nextLine; block.el.remove(); this.blocks.pop();
        }
        if (this.blocks.length > BLOCKS) this.drop(this.blocks.shift(), true);
        if (this.follow) this.box.scrollTop = this.box.scrollHeight;
      });
    }
    older() {
      return this.once(async () => {
        const head = this.blocks[0];
        if (!head || head.from <= 0) return;
        const block = await this.load(this.place("before", head.from, head.line));
        if (!block.el.children.length) { head.from = 0; return; }
        const tall = this.box.scrollHeight;
        this.blocks.unshift(block);
        this.box.prepend(block.el);
        this.box.scrollTop += this.box.scrollHeight - tall;
        if (this.blocks.length > BLOCKS) this.drop(this.blocks.pop(), false);
      });
    }
    drop(block, above) {
      const tall = this.box.scrollHeight;
      block.el.remove();
      if (above) this.box.scrollTop -= tall - this.box.scrollHeight;
    }
    scrolled() {
      const { scrollTop, scrollHeight, clientHeight } = this.box;
      const below = scrollHeight - scrollTop - clientHeight;
      const seen = this.blocks.at(-1), more = seen && seen.to < this.end && !this.open(seen);
      if (this.follow && below > 60) this.set(false);
      else if (!this.follow && below < 4 && seen && !more) this.set(true);
      if (scrollTop < 400) this.older();
      else if (below < 400 && more) this.newer();
    }
    tell() {
      const [head, tail] = [this.blocks[0], this.blocks.at(-1)];
      if (this.where && head) this.where.textContent = `${size(head.from)} to ${size(this.open(tail) ? this.end : tail.to)} of ${size(this.end)}`;
      this.box.dataset.empty = String(!this.end);
    }
  }
  // Whether lines are wrapped is in the address, so that a link shows what you see.
  document.addEventListener("change", (e) => {
    if (!e.target.matches("[data-wrap]")) return;
    const address = new URL(location.href);
    if (e.target.checked) address.searchParams.delete("wrap"); else address.searchParams.set("wrap", "off");
    history.replaceState(null, "", address);
  });
  function size(bytes) {
    if (bytes < 1024) return `${Math.max(0, bytes)} B`;
    const [n, unit] = bytes < 1048576 ? [bytes / 1024, "KiB"] : [bytes / 1048576, "MiB"];
    return `${n.toFixed(n < 100 ? 1 : 0)} ${unit}`;
  }

  // ---- Start
  function start() {
    // `farmhand dev` prints an address that ends in #TOKEN: what is behind # never leaves the browser by itself.
    const field = $("#token");
    if (field && location.hash.startsWith("#fh_")) {
      field.value = location.hash.slice(1);
      history.replaceState(null, "", location.pathname);
      field.form.requestSubmit();
    }
    // The page says that something is away: look whether it is back.
    if ($("[data-retry]")) setInterval(async () => {
      if (document.hidden) return;
      try { if ((await fetch(location.href, { headers: { accept: "text/html" } })).ok) location.reload(); } catch { /* later */ }
    }, 3000);
    times();
    setInterval(times, 1000);
    listen();
    const tick = Number(document.body.dataset.tick || 0);
    if (tick) setInterval(() => { if (Date.now() - last > tick * 900) refresh(); }, tick * 1000);
    $$("[data-log]").forEach((box) => (box.log = new Log(box)));
    document.addEventListener("farm:fresh", () => {
      for (const box of $$("[data-log]")) if (!box.log) box.log = new Log(box);
    });
    $$("form.filter select").forEach((s) => s.addEventListener("change", () => { if (s.form.checkValidity()) s.form.requestSubmit(); }));
    for (const box of $$("dialog")) box.addEventListener("click", (e) => { if (e.target === box) box.close(); });
  }
  start();
})();
