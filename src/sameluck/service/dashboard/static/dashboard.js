// Keep a page up to date: fetch it again and replace the parts that have changed. A page is complete without this script.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script");
  const seconds = Number(document.body.dataset.refresh || 0);
  let tag = "", busy = false, again = false;

  // A part is not replaced while it is in use: a field has the focus, or was changed and not sent.
  const isChanged = (field) => {
    if (field.tagName !== "SELECT") return field.type !== "hidden" && field.value !== field.defaultValue;
    const options = [...field.options];
    return !(options.find((option) => option.defaultSelected) || options[0])?.selected;
  };
  const inUse = (part) => {
    const fields = [...part.querySelectorAll("input, select, textarea")];
    return fields.includes(document.activeElement) || fields.some(isChanged);
  };

  const replace = (part, fresh) => {
    if (part.innerHTML === fresh.innerHTML && part.className === fresh.className) return;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const focusIndex = focused ? [...part.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused) : -1;
    const open = [...part.querySelectorAll("details[open]")].map((details) => details.id);
    const scrolled = [...part.querySelectorAll(".scroll")].map((box) => [box.id, box.scrollTop, box.scrollLeft]);
    part.className = fresh.className;
    for (const name of ["data-again", "aria-busy"]) {
      if (fresh.hasAttribute(name)) part.setAttribute(name, fresh.getAttribute(name)); else part.removeAttribute(name);
    }
    part.replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const id of open) { const details = document.getElementById(id); if (details) details.open = true; }
    for (const [id, top, left] of scrolled) { const box = document.getElementById(id); if (box) { box.scrollTop = top; box.scrollLeft = left; } }
    if (focusIndex >= 0) part.querySelectorAll("a, button, summary, [tabindex]")[focusIndex]?.focus({ preventScroll: true });
  };

  const announce = (fresh) => {
    const before = document.querySelector("[data-say]")?.dataset.say, after = fresh.querySelector("[data-say]")?.dataset.say;
    const announcement = document.getElementById("announcement");
    if (announcement && after && after !== before) announcement.textContent = after;
  };

  // The slider has the periods of the shown replication, even while the form is in use.
  const follow = (fresh) => {
    const range = document.getElementById("period"), current = fresh.getElementById("period");
    if (!range || !current) return;
    range.max = current.max;
    if (!new URLSearchParams(location.search).has("period")) {
      range.value = current.value;
      document.getElementById("period-shown").textContent = current.value;
    }
  };

  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const headers = { "X-Refresh": "1" };
      if (tag) headers["If-None-Match"] = tag;
      const response = await fetch(location.href, { headers, cache: "no-store" });
      if (response.redirected) { location.reload(); return; }
      if (response.status === 200) {
        tag = response.headers.get("ETag") || "";
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        announce(fresh);
        const parts = document.querySelectorAll("[data-part]");
        // A new part, the stacks for instance, needs a whole page.
        if (fresh.querySelectorAll("[data-part]").length !== parts.length) { location.reload(); return; }
        for (const part of parts) {
          const replacement = fresh.getElementById(part.id);
          if (replacement && !inUse(part)) replace(part, replacement);
        }
        follow(fresh);
        root.dataset.refreshed = String(Number(root.dataset.refreshed || 0) + 1);
      }
    } catch { /* the service is unavailable: the next refresh tries again */ }
    finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  // The stacks follow the chosen replication and period.
  document.addEventListener("input", (event) => {
    const form = event.target.closest("#scrub");
    if (!form) return;
    const shown = form.querySelector("#period-shown"), range = form.querySelector("#period");
    if (event.target === range) shown.textContent = range.value;
    const query = new URLSearchParams(new FormData(form));
    if (event.target !== range || range.value === range.max) query.delete("period");
    history.replaceState(null, "", `?${query}`);
    tag = "";
    refresh();
  });

  // Preview a form while it is filled in.
  let typing = 0;
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-live]");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => {
      const query = new URLSearchParams(new FormData(form));
      history.replaceState(null, "", `?${query}`);
      tag = "";
      refresh();
    }, 300);
  });

  // Show a slider's value. If the other side's policy is chosen, swap the two policies.
  const sides = { a: "b", b: "a" }, chosen = (name) => document.querySelector(`[name="${name}"]:checked`)?.value;
  let before = { a: chosen("a"), b: chosen("b") };
  document.addEventListener("input", ({ target }) => {
    const output = target.type === "range" && document.querySelector(`output[for="${target.id}"]`);
    if (output) output.textContent = target.value;
    const other = target.type === "radio" && sides[target.name];
    if (!other) return;
    if (target.value === chosen(other) && target.value !== "other") {
      const back = document.querySelector(`[name="${other}"][value="${CSS.escape(before[target.name])}"]`);
      if (back) back.checked = true;
    }
    before = { a: chosen("a"), b: chosen("b") };
  });

  document.addEventListener("click", async ({ target }) => {
    const from = target.dataset?.copy;
    if (!from) return;
    try { await navigator.clipboard.writeText(document.getElementById(from).textContent); target.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(document.getElementById(from)); }
  });

  // Ask again while an answer is being computed.
  setInterval(() => { if (document.querySelector("[data-again]")) refresh(); }, 700);

  if (!seconds) return;
  setInterval(() => { if (!document.hidden) refresh(); }, 1000 * seconds);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
})();
