// The palette: conversations by what was said in them, agents, workspaces and pages, by keyboard.
import { html, useEffect, useId, useLayoutEffect, useRef, useState, valueTo } from "../lib.js";
import { get, path } from "../api.js";
import { navigate, route } from "../router.js";
import { session, workspaces } from "../state.js";
import { Icon } from "./basic.js";
import { Dialog } from "./dialog.js";
import { PAGES } from "./shell.js";

/** @typedef {{href: string, icon: string, name: string, also?: string | null, kind: string}} Target */

const PAUSE_MS = 120;
const SHORTEST = 2;

/** @param {{onClose: () => void}} props */
export function Palette({ onClose }) {
  const [words, setWords] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const places = usePlaces();
  const { conversations, fault } = useConversations(words.trim());
  const parts = words.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const fits = (/** @type {Target} */ { name, kind }) => parts.every((part) => `${name} ${kind}`.toLocaleLowerCase().includes(part));
  const found = [...places.filter(fits), ...conversations];
  const active = Math.min(at, found.length - 1);
  useLayoutEffect(() => list.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active]);
  const pick = (/** @type {Target | undefined} */ target) => {
    if (!target) return;
    onClose();
    navigate(target.href);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt(Math.max(0, Math.min(found.length - 1, active + step)));
    else if (event.key === "Enter" && !event.isComposing) pick(found[active]);
    else return;
    event.preventDefault();
  };
  const type = (/** @type {string} */ text) => {
    setWords(text);
    setAt(0);
  };
  return html`<${Dialog} title="Search" onClose=${onClose}><div class="dialog-body palette">
    <div class="search"><${Icon} name="search" /><input type="text" role="combobox" aria-expanded="true" aria-controls=${id} aria-autocomplete="list" autofocus
      aria-activedescendant=${found.length ? `${id}-${active}` : undefined} aria-label="Search conversations, agents and pages" placeholder="Conversations, agents, pages"
      autocomplete="off" spellcheck=${false} value=${words} onInput=${valueTo(type)} onKeyDown=${keys} /></div>
    <div class="options" role="listbox" id=${id} aria-label="Found" ref=${list}>${found.map((target, i) => html`
      <div key=${target.kind + target.href} id=${`${id}-${i}`} class="option" role="option" aria-selected=${i === active} onPointerMove=${() => i === active || setAt(i)} onClick=${() => pick(target)}>
        <${Icon} name=${target.icon} /><span class="palette-what grow"><span class="ellipsis" dir="auto">${target.name}</span>${target.also && html`<small class="ellipsis" dir="auto">${target.also}</small>`}</span>
        <span class="muted">${target.kind}</span></div>`)}</div>
    ${(fault || !found.length) && html`<p class="muted" role="status">${fault || "Nothing matches."}</p>`}</div><//>`;
}

/** Pages, workspaces, and the agents of the workspace that is shown. @returns {Target[]} */
function usePlaces() {
  const [agents, setAgents] = useState(/** @type {Target[]} */ ([]));
  const here = route.value?.params.ws ?? (workspaces.value?.length === 1 ? workspaces.value[0]?.id : undefined);
  useEffect(() => {
    if (!here) return;
    const to = (/** @type {import("../answers").AgentView} */ agent) => ({
      href: `/workspaces/${here}?agent=${encodeURIComponent(`${agent.instance_id}/${agent.server_id}`)}`, icon: "bot", name: agent.label, kind: "Agent" });
    get(path`/workspaces/${here}/agents`).then((/** @type {import("../answers").Picker} */ picker) => setAgents(picker.agents.map(to)), () => undefined);
  }, [here]);
  const pages = PAGES.filter((page) => page.section !== "turns" || session.value?.turns);
  return [
    ...(here ? [{ href: `/workspaces/${here}`, icon: "plus", name: "New conversation", kind: "Action" }] : []),
    ...agents,
    ...(workspaces.value ?? []).map((each) => ({ href: `/workspaces/${each.id}`, icon: "layout-grid", name: each.name, kind: "Workspace" })),
    ...pages.map(({ href, icon, name }) => ({ href, icon, name, kind: "Page" })),
  ];
}

/** What the server finds in conversations, once nothing was typed for a moment. @param {string} words @returns {{conversations: Target[], fault: string}} */
function useConversations(words) {
  const [found, setFound] = useState(NONE);
  useEffect(() => {
    if (words.length < SHORTEST) return void setFound(NONE);
    const ended = new AbortController();
    const ask = () => get(`/search?words=${encodeURIComponent(words)}`, { signal: ended.signal }).then(
      (/** @type {import("../answers").FoundConversations} */ answer) => setFound({ fault: "", conversations: answer.conversations.map((each) => ({
        href: `/workspaces/${each.workspace_id}/conversations/${each.id}`, icon: "message-square", name: each.title || "New conversation", also: each.excerpt, kind: "Conversation" })) }),
      () => ended.signal.aborted || setFound({ conversations: [], fault: "Conversations could not be searched." }));
    const timer = setTimeout(ask, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [words]);
  return found;
}

const NONE = { conversations: /** @type {Target[]} */ ([]), fault: "" };
