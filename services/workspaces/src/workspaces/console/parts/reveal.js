// The team JWT of an instance: shown once, replaced by another one. It is kept in this component and nowhere else.
import { html, useEffect, useRef, useState } from "../lib.js";
import { path, post } from "../api.js";
import { Banner, Button, Copy, Icon } from "./basic.js";
import { confirm } from "./dialog.js";
import { toast } from "./toast.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {import("../answers").Revealed} Revealed */

const STATES = {
  none: ["lock", "There is no JWT yet. The libraries make one when they get to know the team."],
  ready: ["key-round", "A JWT is ready. It can be shown once; copy it into the team's secrets then."],
  revealed: ["eye-off", "The JWT was shown and cannot be shown again. Rotate it to get another one."],
};

/** @param {{instance: Instance, onChanged: (instance: Instance) => void}} props */
export function TeamToken({ instance, onChanged }) {
  const [shown, setShown] = useState(/** @type {Revealed | null} */ (null));
  useEffect(() => {
    const forget = () => setShown(null); // also before the browser keeps the page for its Back button
    addEventListener("pagehide", forget);
    return () => removeEventListener("pagehide", forget);
  }, []);
  useEffect(() => setShown(null), [instance.id]);
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(shown);
  // The button that showed or hid it is gone.
  useEffect(() => {
    if (before.current !== shown) card.current?.focus();
    before.current = shown;
  }, [shown]);
  const reveal = () => confirm({
    title: "Show the team JWT?",
    text: "It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",
    action: "Reveal once",
    act: async () => {
      setShown(await post(path`/pallas/${instance.id}/reveal`));
      onChanged({ ...instance, jwt: "revealed" });
    },
  });
  const rotate = () => confirm({
    title: `Rotate the JWT of ${instance.name}?`,
    text: "The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot read libraries.",
    action: "Rotate team JWT",
    danger: true,
    act: async () => {
      setShown(null);
      onChanged(await post(path`/pallas/${instance.id}/rotate`));
      toast("The JWT was rotated. The new one can be revealed once.");
    },
  });
  const [icon, text] = STATES[instance.jwt] ?? STATES.none;
  return html`<section class="card" aria-labelledby="token-title" tabindex="-1" ref=${card}>
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${instance.jwt === "ready" && !shown && html`<${Button} kind="primary" icon="eye" onClick=${reveal}>Reveal once<//>`}
      ${instance.jwt !== "none" && html`<${Button} icon="rotate-ccw" onClick=${rotate}>Rotate team JWT<//>`}</header>
    ${shown ? html`<${Shown} shown=${shown} onHide=${() => setShown(null)} />` : html`<p class="lead"><${Icon} name=${icon} />${text}</p>`}
  </section>`;
}

/** @param {{shown: Revealed, onHide: () => void}} props */
const Shown = ({ shown, onHide }) => html`
  <${Banner} tone="warn" action=${html`<${Button} small icon="eye-off" onClick=${onHide}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${Secret} label="JWT" text=${shown.jwt} />
  <${Secret} label=${`For ${shown.file} of the team`} text=${shown.stanza} />`;

/** @param {{label: string, text: string}} props */
const Secret = ({ label, text }) => html`<figure class="secret"><figcaption><span class="grow">${label}</span><${Copy} text=${text} label=${`Copy: ${label}`} /></figcaption>
  <pre tabindex="0" aria-label=${label}><code>${text}</code></pre></figure>`;
