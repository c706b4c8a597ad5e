// The messages. Older ones are loaded on the way up; the end stays in view while text arrives.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { Button, Spinner } from "../parts/basic.js";
import { failed } from "../parts/toast.js";
import { Message } from "./message.js";
import { running } from "./model.js";

const NEAR_PX = 96;

/** @param {{chat: import("./model.js").Chat, agents: import("./agents.js").Agents}} props */
export function Transcript({ chat, agents }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const above = useRef(/** @type {HTMLElement | null} */ (null));
  const stuck = useRef(true);
  const [away, setAway] = useState(false);
  const items = chat.items.value;
  const older = chat.before.value !== null;
  const from = chat.remembersFrom.value;

  const toEnd = () => frame.current?.scrollTo({ top: frame.current.scrollHeight });
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = /** @type {HTMLElement} */ (frame.current);
    stuck.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    setAway(!stuck.current);
  };
  // Own messages bring the end back into view.
  const last = items.at(-1)?.id;
  const lastAsked = items.findLast((item) => item.view.peek().role === "user")?.id;
  useLayoutEffect(() => {
    stuck.current = true;
    toEnd();
  }, [lastAsked]);
  useLayoutEffect(() => void (stuck.current && toEnd()), [last]);
  useEffect(() => {
    const sizes = new ResizeObserver(() => stuck.current && toEnd());
    for (const each of [list.current, frame.current]) if (each) sizes.observe(each);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => {
    if (!older || !above.current) return undefined;
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && void loadOlder(), { root: frame.current, rootMargin: "1200px 0px 0px 0px" });
    seen.observe(above.current);
    return () => seen.disconnect();
  }, [older, items.length]);

  const loadOlder = async () => {
    const scroller = /** @type {HTMLElement} */ (frame.current);
    const height = scroller.scrollHeight;
    const anchored = CSS.supports("overflow-anchor", "auto") && scroller.scrollTop > 0;
    try {
      await chat.loadOlder();
    } catch (error) {
      failed(error);
    }
    if (!anchored) requestAnimationFrame(() => (scroller.scrollTop += scroller.scrollHeight - height));
  };

  return html`<div class="transcript-frame"><div class="transcript" ref=${frame} onScroll=${scrolled} tabindex="0" role="region" aria-label="Transcript">
    <div class="messages" ref=${list} role="log" aria-live="off" aria-label="Messages">
      ${older && html`<div class="older" ref=${above}><${Spinner} /><span class="visually-hidden">Loading older messages</span></div>`}
      ${items.flatMap((item) => [from > 1 && item.view.peek().seq === from && html`<p class="remembers" key="line"><span>The agent remembers from here</span></p>`,
        html`<${Message} key=${item.id} item=${item} agents=${agents} />`])}</div></div>
    ${away && html`<${Button} class="to-end" small icon="arrow-down" onClick=${() => { stuck.current = true; toEnd(); }} aria-label="To the newest message">Newest<//>`}
    <${Announcement} chat=${chat} /></div>`;
}

/** Tells screen readers that an answer has come. @param {{chat: import("./model.js").Chat}} props */
function Announcement({ chat }) {
  const view = chat.last.value;
  const [was, setWas] = useState("");
  const [text, setText] = useState("");
  useEffect(() => {
    if (!view) return;
    if (running(view)) setWas(view.id);
    else if (was === view.id) setText(`${view.agent_title ?? "The agent"}: ${view.status === "answered" ? view.content.slice(0, 400) : view.status}`);
  }, [view?.status, view?.id]);
  return html`<p class="visually-hidden" role="status" aria-live="polite">${text}</p>`;
}
