// What is shown while an agent is at work: one status line, which is replaced by the next one.
import { html, useEffect, useState } from "../lib.js";
import { Icon, Spinner } from "../parts/basic.js";
import { NoticeButton } from "./notice.js";

/** @typedef {import("../answers").ProgressView} ProgressView */

const TICK_MS = 1_200;

/** `since`: when it began, in milliseconds. @param {{progress?: ProgressView, since: number, asking?: boolean}} props */
export function Thinking({ progress, since, asking = false }) {
  const done = useTick(progress);
  return html`<div class="thinking">
    <div class="thinking-head"><span class="thinking-sign">${asking ? html`<${Icon} name="circle-help" />` : html`<${Spinner} />`}</span>
      <span class=${asking ? "" : "shimmer"}>${asking ? "Waiting for your answer" : "Thinking"}</span><${Elapsed} since=${since} /><${NoticeButton} /></div>
    <div class="status-line" role="status" aria-live="polite">${progress?.message && !asking && html`
      <span key=${progress.message} class="status-text">
        <span class=${done ? "tick shown" : "tick"}><${Icon} name="check" size=${14} /></span>
        <span dir="auto">${progress.message}</span></span>`}</div>
  </div>`;
}

/** True for a moment after a part of the work was done: `total` has been reached. @param {ProgressView} [progress] */
function useTick(progress) {
  const reached = progress !== undefined && progress.total !== null && progress.progress === progress.total;
  const [at, setAt] = useState("");
  useEffect(() => {
    if (!reached) return undefined;
    setAt(progress.at);
    const timer = setTimeout(() => setAt(""), TICK_MS);
    return () => clearTimeout(timer);
  }, [progress?.at, reached]);
  return reached && at === progress.at;
}

/** Seconds that have passed, each second. Screen readers are not told. @param {{since: number}} props */
function Elapsed({ since }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.max(0, Math.floor((now - since) / 1000));
  const text = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return html`<span class="elapsed" aria-hidden="true">${text}</span>`;
}
