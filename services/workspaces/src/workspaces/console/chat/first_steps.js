// What helps somebody who is here for the first time: messages to try, and how the offline model is replaced.
import { html, signal, useState } from "../lib.js";
import { keep, read } from "../state.js";
import { Button, Copy, IconButton, Icon } from "../parts/basic.js";
import { Dialog } from "../parts/dialog.js";

/** Messages of the agent's folder, to click. @param {{agent: import("./agents.js").AgentView | null, send: (text: string) => void}} props */
export const Starters = ({ agent, send }) => agent && agent.health.status !== "error" && agent.starters.length > 0 && html`
  <ul class="starters" aria-label="Messages to try">${agent.starters.map((text) => html`
    <li key=${text}><${Button} onClick=${() => send(text)}><span dir="auto">${text}</span><//></li>`)}</ul>`;

const dismissed = signal(read("offline-model") === "known");

/** Says that the agent has the offline model, until it is dismissed. @param {{agent: import("./agents.js").AgentView | null}} props */
export function OfflineModel({ agent }) {
  const [steps, setSteps] = useState(false);
  if (agent?.capabilities.model !== "offline" || dismissed.value) return null;
  const dismiss = () => {
    dismissed.value = true;
    keep("offline-model", "known");
  };
  return html`<div class="offline-model" role="note"><${Icon} name="info" size=${14} />
    <span class="grow">Offline demo model: it follows fixed rules. <button type="button" class="link" onClick=${() => setSteps(true)}>Connect a real one</button></span>
    <${IconButton} icon="x" label="Do not show this again" onClick=${dismiss} />
    ${steps && html`<${Steps} onClose=${() => setSteps(false)} />`}</div>`;
}

const MODEL = "default_model: anthropic.claude-sonnet-4-5";
const KEY = "anthropic:\n  api_key: sk-ant-…";

/** @param {{onClose: () => void}} props */
const Steps = ({ onClose }) => html`<${Dialog} title="Connect a real model" onClose=${onClose}><div class="dialog-body">
  <p>In the team's folder, which is <code>.pallas/teams/demo</code> for the demo team:</p>
  <ol class="steps">
    <li>Name the model in <code>fastagent.config.yaml</code>. It may also be <code>openai.…</code>, or <code>generic.…</code> for any server that speaks OpenAI's protocol.
      <${Code} text=${MODEL} /></li>
    <li>Put its key into <code>fastagent.secrets.yaml</code> beside it.<${Code} text=${KEY} /></li>
    <li>Wait a moment: workers load changed files by themselves.</li></ol>
  </div><footer><${Button} kind="primary" onClick=${onClose} autofocus>Done<//></footer><//>`;

/** @param {{text: string}} props */
const Code = ({ text }) => html`<div class="step-code"><pre>${text}</pre><${Copy} text=${text} /></div>`;
