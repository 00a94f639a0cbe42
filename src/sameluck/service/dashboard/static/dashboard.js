// Keeps a page up to date: fetches it again and replaces the parts that have changed. Without it a page is whole too.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script");
  const seconds = Number(document.body.dataset.refresh || 0);
  let tag = "", busy = false, again = false;

  // A part is left alone while somebody uses it: a field has the focus, or was changed and not sent.
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
    const place = focused ? [...part.querySelectorAll("a, button, summary, [tabindex]")].indexOf(focused) : -1;
    const open = [...part.querySelectorAll("details[open]")].map((one) => one.id);
    const scrolled = [...part.querySelectorAll(".scroll")].map((one) => [one.id, one.scrollTop, one.scrollLeft]);
    part.className = fresh.className;
    for (const name of ["data-again", "aria-busy"]) {
      if (fresh.hasAttribute(name)) part.setAttribute(name, fresh.getAttribute(name)); else part.removeAttribute(name);
    }
    part.replaceChildren(...document.importNode(fresh, true).childNodes);
    for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
    for (const [id, top, left] of scrolled) { const one = document.getElementById(id); if (one) { one.scrollTop = top; one.scrollLeft = left; } }
    if (place >= 0) part.querySelectorAll("a, button, summary, [tabindex]")[place]?.focus({ preventScroll: true });
  };

  const announce = (fresh) => {
    const before = document.querySelector("[data-say]")?.dataset.say, after = fresh.querySelector("[data-say]")?.dataset.say;
    const place = document.getElementById("announcement");
    if (place && after && after !== before) place.textContent = after;
  };

  // The range of periods is that of the replication which is shown, even while the form is in use.
  const follow = (fresh) => {
    const range = document.getElementById("period"), found = fresh.getElementById("period");
    if (!range || !found) return;
    range.max = found.max;
    if (!new URLSearchParams(location.search).has("period")) {
      range.value = found.value;
      document.getElementById("period-shown").textContent = found.value;
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
        // A part that was not there before, the stacks for instance, comes with a whole page.
        if (fresh.querySelectorAll("[data-part]").length !== parts.length) { location.reload(); return; }
        for (const part of parts) {
          const found = fresh.getElementById(part.id);
          if (found && !inUse(part)) replace(part, found);
        }
        follow(fresh);
        root.dataset.refreshed = String(Number(root.dataset.refreshed || 0) + 1);
      }
    } catch { /* the service is away: the next try finds it again */ }
    finally {
      busy = false;
      if (again) { again = false; refresh(); }
    }
  }

  // The stacks follow the replication and the period that are chosen.
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

  // A form that is previewed while it is filled in.
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

  // A value beside its slider; the other side's policy chosen: the two change places.
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

  // An answer that is being computed.
  setInterval(() => { if (document.querySelector("[data-again]")) refresh(); }, 700);

  if (!seconds) return;
  setInterval(() => { if (!document.hidden) refresh(); }, 1000 * seconds);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
})();
