// General settings, and who is logged in: how often agents and Mnemosyne are asked, and how much of a conversation an agent is sent.
import { capital, html, useState, useTitle, valueTo } from "../lib.js";
import { get, path, put, remove, sentence } from "../api.js";
import { Banner, Button, Field, Pill } from "../parts/basic.js";
import { confirm } from "../parts/dialog.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { Time } from "../parts/time.js";
import { toast } from "../parts/toast.js";

/** @typedef {import("../answers").SettingsView} Values */
/** @typedef {{name: keyof Values & string, label: string, unit: string, hint: string, scale?: number, step?: string}} Entry */

/** `scale`: what is shown for 1 of the API. @type {{title: string, text: string, entries: Entry[]}[]} */
const GROUPS = [
  { title: "Intervals", text: "Both take effect at once, on all replicas.", entries: [
    { name: "health_interval", label: "Health checks", unit: "s", hint: "How often each agent is asked for its health." },
    { name: "reconcile_interval", label: "Reconciling", unit: "s", hint: "How often all teams are compared with the libraries, besides what is told at once." },
  ] },
  { title: "History", text: "Agents keep no history: each message is sent with the conversation before it, cut to what the model can take.", entries: [
    { name: "history_share", label: "Share of the context window", unit: "%", scale: 100, hint: "For models whose window is known." },
    { name: "history_messages", label: "Messages at most", unit: "messages", hint: "For models whose window is not known." },
    { name: "history_bytes", label: "Size at most", unit: "kB", scale: 0.001, hint: "For models whose window is not known." },
  ] },
];

export default function SettingsPage() {
  const loaded = useLoaded(() => /** @type {Promise<Values>} */ (get("/settings")), []);
  useTitle("Settings");
  return html`<div class="page">
    <header><div><h1>Settings</h1><p>These settings apply to all workspaces.</p></div></header>
    ${loaded.data ? html`<${Form} values=${loaded.data} onSaved=${loaded.set} />` : html`<${Loading} loaded=${loaded} lines=${6} />`}
    <${Sessions} />
  </div>`;
}

/** @typedef {import("../answers").OpenSession} Session */

/** Who is logged in, and where. */
function Sessions() {
  const loaded = useLoaded(() => /** @type {Promise<import("../answers").OpenSessions>} */ (get("/sessions")), []);
  const end = (/** @type {string} */ of, /** @type {string} */ title, /** @type {string} */ text) => confirm({
    title, text, action: "End", danger: true, act: () => remove(of).then(loaded.reload) });
  const columns = [
    { title: "Browser", cell: (/** @type {Session} */ one) => html`<span title=${one.browser}>${browserIn(one.browser)}</span>` },
    { title: "Address", cell: (/** @type {Session} */ one) => one.address },
    { title: "Logged in", cell: (/** @type {Session} */ one) => html`<${Time} at=${one.begun_at} />` },
    { title: "Last used", cell: (/** @type {Session} */ one) => html`<${Time} at=${one.used_at} />` },
    { title: "State", cell: (/** @type {Session} */ one) => one.current ? html`<${Pill} tone="ok">This one<//>`
      : html`<${Button} small onClick=${() => end(path`/sessions/${one.id}`, "End this session?", "Its browser has to log in again.")}>End<//>` },
  ];
  return html`<section class="card"><header><div class="grow"><h2>Sessions</h2><p class="muted">Browsers that are logged in. A new password ends all of them.</p></div>
      <${Button} small onClick=${() => end("/sessions", "End all other sessions?", "Their browsers have to log in again.")}>End all others<//></header>
    ${loaded.data ? html`<${Table} label="Sessions" columns=${columns} rows=${loaded.data.sessions} keyOf=${(/** @type {Session} */ one) => one.id} />` : html`<${Loading} loaded=${loaded} />`}</section>`;
}

/** What browsers say of themselves, and their names. The first that one says counts: it also says those behind. @type {[string, string][]} */
const BROWSERS = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]];
const SYSTEMS = ["Windows", "Android", "iPhone", "iPad", "Mac OS X", "Linux"];

/** The name of a browser and its system. @param {string} said */
function browserIn(said) {
  const name = BROWSERS.find(([word]) => said.includes(word))?.[1];
  const system = SYSTEMS.find((word) => said.includes(word));
  return name ? [name, system].filter(Boolean).join(" on ") : said.slice(0, 40) || "unknown";
}

/** @param {Entry} entry @param {Values} values */
const shown = (entry, values) => String(Number((values[entry.name] * (entry.scale ?? 1)).toFixed(3)));

/** @param {{values: Values, onSaved: (values: Values) => void}} props */
function Form({ values, onSaved }) {
  const entries = GROUPS.flatMap((group) => group.entries);
  const textsOf = (/** @type {Values} */ of) => /** @type {Record<string, string>} */ (Object.fromEntries(entries.map((entry) => [entry.name, shown(entry, of)])));
  const [texts, setTexts] = useState(() => textsOf(values));
  const { busy, fault, run, clear } = useWork();
  const changed = entries.some((entry) => texts[entry.name] !== shown(entry, values));
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    void run(async () => {
      const body = Object.fromEntries(entries.map((entry) => [entry.name, Number((Number(texts[entry.name]) / (entry.scale ?? 1)).toFixed(6))]));
      const saved = /** @type {Values} */ (await put("/settings", body));
      onSaved(saved);
      setTexts(textsOf(saved));
      toast("The settings are saved.");
    });
  };
  const faultOf = (/** @type {string} */ name) =>
    fault?.faults.find((each) => each.field === name)?.reason ?? (fault?.field === name ? sentence(fault) : "");
  return html`<form class="stack" onSubmit=${save} novalidate>
    ${GROUPS.map((group) => html`<section key=${group.title} class="card"><header><div class="grow"><h2>${group.title}</h2><p class="muted">${group.text}</p></div></header>
      <div class="settings">${group.entries.map((entry) => html`
        <${Field} key=${entry.name} label=${entry.label} for=${entry.name} hint=${entry.hint} error=${capital(faultOf(entry.name))}>
          <span class="with-unit"><input id=${entry.name} inputmode="decimal" autocomplete="off" value=${texts[entry.name]} aria-describedby=${`${entry.name}-hint`} aria-invalid=${Boolean(faultOf(entry.name))}
            onInput=${valueTo((value) => setTexts({ ...texts, [entry.name]: value }))} /><span>${entry.unit}</span></span><//>`)}</div></section>`)}
    ${fault && !entries.some((entry) => faultOf(entry.name)) && html`<${Banner} tone="bad">${sentence(fault)}<//>`}
    <div class="row"><${Button} kind="primary" type="submit" busy=${busy} disabled=${!changed}>Save<//>
      ${changed && html`<${Button} kind="quiet" onClick=${() => { setTexts(textsOf(values)); clear(); }}>Discard<//>`}</div>
  </form>`;
}
