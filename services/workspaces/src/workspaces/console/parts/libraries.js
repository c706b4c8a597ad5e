// What the teams of a workspace read, and what they find there.
import { counted, html, useState, valueTo } from "../lib.js";
import { get, path } from "../api.js";
import { Banner, Button, Icon } from "./basic.js";
import { Loading, useLoaded, useWork } from "./load.js";

/** @typedef {import("../answers").WorkspaceLibraries} Read */
/** @typedef {import("../answers").Passages} Passages */

/** @param {{workspace: string}} props */
export function Libraries({ workspace }) {
  const loaded = useLoaded(() => /** @type {Promise<Read>} */ (get(path`/workspaces/${workspace}/libraries`)), [workspace], ["workspace", "instance"]);
  const teams = loaded.data?.teams ?? [];
  return html`<section class="card" aria-labelledby="libraries-title">
    <header><div class="grow"><h2 id="libraries-title">Libraries</h2><p class="muted">What the attached teams read. A team that is attached to other workspaces reads their libraries, too.</p></div></header>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />` : !teams.length ? html`<p class="muted">Attach a team first.</p>` : html`
      <ul class="libraries">${teams.map((team) => html`<li key=${team.instance_id}><h3 dir="auto">${team.name}</h3>
        ${team.error ? html`<p class="muted">Not known: ${team.error}.</p>` : !team.libraries.length ? html`<p class="muted">It reads no library.</p>`
          : html`<ul>${team.libraries.map((each) => html`<li key=${each.library}><span class="grow" dir="auto">${each.name}</span><span class="muted">${counted(each.documents, "document")}</span></li>`)}</ul>`}</li>`)}</ul>
      ${teams.some((team) => team.libraries.length) && html`<${Try} workspace=${workspace} />`}`}
  </section>`;
}

/** @param {{workspace: string}} props */
function Try({ workspace }) {
  const [words, setWords] = useState("");
  const [found, setFound] = useState(/** @type {Passages | null} */ (null));
  const { busy, error, run } = useWork();
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    void run(async () => setFound(await get(`${path`/workspaces/${workspace}/libraries/search`}?words=${encodeURIComponent(words)}`)));
  };
  return html`<form class="row" onSubmit=${search}><span class="search grow"><${Icon} name="search" /><input type="search" aria-label="Search the libraries" placeholder="Search as a team does" minlength="2" required value=${words} onInput=${valueTo(setWords)} /></span>
      <${Button} type="submit" busy=${busy} disabled=${words.trim().length < 2}>Search<//></form>
    ${error && html`<${Banner} tone="bad">${error}<//>`}
    ${found && html`<div role="status" class="stack-small">${found.passages.length ? found.passages.map((each) => html`<blockquote key=${each.text}><p><b dir="auto">${each.title}</b> <span class="muted" dir="auto">${each.library}</span></p><p dir="auto">${each.text.replaceAll("**", "")}</p></blockquote>`)
      : html`<p class="muted">${found.team} finds nothing about that.</p>`}</div>`}`;
}
