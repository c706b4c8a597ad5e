// The messages. Older ones are loaded on the way up; the end stays in view while text arrives.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { Button, Spinner } from "../parts/basic.js";
import { failed } from "../parts/toast.js";
import { spokenOf } from "../text/markdown.js";
import { Message } from "./message.js";
import { running } from "./model.js";
import { useWindow } from "./window.js";

const NEAR_PX = 96;
const AHEAD = "1200px 0px";

/** @param {{chat: import("./model.js").Chat, agents: import("./agents.js").Agents}} props */
export function Transcript({ chat, agents }) {
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const stuck = useRef(true);
  const [away, setAway] = useState(false);
  const { shown, above, below, up, down, toEnd } = useWindow(chat);
  const from = chat.remembersFrom.value;
  const forgets = chat.forgets.value;

  const scrollToEnd = () => frame.current?.scrollTo({ top: frame.current.scrollHeight });
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = /** @type {HTMLElement} */ (frame.current);
    stuck.current = !below && scrollHeight - scrollTop - clientHeight < NEAR_PX;
    setAway(!stuck.current);
  };
  const stick = () => {
    stuck.current = true;
    toEnd();
    requestAnimationFrame(scrollToEnd);
  };
  // Own messages bring the end back into view.
  const items = chat.items.value;
  const lastAsked = items.findLast((item) => item.view.peek().role === "user")?.id;
  useLayoutEffect(stick, [lastAsked]);
  useLayoutEffect(() => void (stuck.current && scrollToEnd()), [items.at(-1)?.id]);
  useEffect(() => {
    const sizes = new ResizeObserver(() => stuck.current && scrollToEnd());
    for (const each of [list.current, frame.current]) if (each) sizes.observe(each);
    return () => sizes.disconnect();
  }, []);

  useSteadyPlace(frame, list, shown[0]?.id);
  const goUp = () => void up().catch(failed);
  return html`<div class="transcript-frame">
    <div class="transcript" ref=${frame} onScroll=${scrolled} tabindex="0" role="region" aria-label="Transcript">
    <div class="messages" ref=${list} role="log" aria-live="off" aria-label="Messages">
      ${above && html`<${More} key=${`above ${shown[0]?.id}`} inside=${frame} act=${goUp} what="older" />`}
      ${shown.flatMap((item) => [
        forgets && item.view.peek().seq === from && html`<p class="remembers" key="line"><span>The agent remembers from here</span></p>`,
        html`<${Message} key=${item.id} item=${item} chat=${chat} agents=${agents} />`,
      ])}
      ${below && html`<${More} key=${`below ${shown.at(-1)?.id}`} inside=${frame} act=${down} what="newer" />`}</div></div>
    ${away && html`<${Button} class="to-end" small icon="arrow-down" onClick=${stick} aria-label="To the newest message">Newest<//>`}
    <${Announcement} chat=${chat} /></div>`;
}

/**
 * What is read stays where it is while messages come above it. Browsers do that themselves, but not at the very top.
 * @param {{current: HTMLElement | null}} frame
 * @param {{current: HTMLElement | null}} list
 * @param {string | undefined} first the first message in the page
 */
function useSteadyPlace(frame, list, first) {
  const shown = useRef(first);
  const place = useRef(/** @type {{message: Element, top: number} | null} */ (null));
  if (shown.current !== first && frame.current) {
    // The page still has the old messages here.
    const message = list.current?.querySelector(".message");
    const kept = CSS.supports("overflow-anchor", "auto") && frame.current.scrollTop > 0;
    place.current = message && !kept ? { message, top: message.getBoundingClientRect().top } : null;
  }
  shown.current = first;
  useLayoutEffect(() => {
    const { message, top } = place.current ?? {};
    place.current = null;
    if (message?.isConnected && frame.current) frame.current.scrollTop += message.getBoundingClientRect().top - (top ?? 0);
  }, [first]);
}

/**
 * Asks for more messages as soon as it is nearly in view.
 * @param {{inside: {current: HTMLElement | null}, act: () => void, what: string}} props
 */
function More({ inside, act, what }) {
  const self = useRef(/** @type {HTMLElement | null} */ (null));
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const ask = (/** @type {IntersectionObserverEntry[]} */ [entry]) => entry?.isIntersecting && latest.current();
    const seen = new IntersectionObserver(ask, { root: inside.current, rootMargin: AHEAD });
    if (self.current) seen.observe(self.current);
    return () => seen.disconnect();
  }, []);
  return html`<div class="older" ref=${self}><${Spinner} /><span class="visually-hidden">Loading ${what} messages</span></div>`;
}

/** Tells screen readers that an answer has come. @param {{chat: import("./model.js").Chat}} props */
function Announcement({ chat }) {
  const view = chat.last.value;
  const [was, setWas] = useState("");
  const [text, setText] = useState("");
  useEffect(() => {
    if (!view) return;
    if (view.status === "asking") setText(`${view.agent_title ?? "The agent"} asks: ${view.question?.message ?? ""}`);
    if (running(view)) setWas(view.id);
    else if (was === view.id) setText(`${view.agent_title ?? "The agent"}${spoken(view)}`);
  }, [view?.status, view?.id]);
  return html`<p class="visually-hidden" role="status" aria-live="polite">${text}</p>`;
}

/** What is said of an answer, which nobody wants to hear in whole. @param {import("../answers").MessageView} view */
const spoken = ({ status, content, error }) =>
  status === "answered" ? `: ${spokenOf(content.slice(0, 400))}` : status === "failed" ? ` failed: ${error ?? "it did not answer."}` : " was cancelled.";
