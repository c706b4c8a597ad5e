// Text files of a message that is being written. They go into its text, as agents take text and images only.
import { html } from "../lib.js";
import { Icon, IconButton } from "../parts/basic.js";
import { size } from "../parts/units.js";

export const TEXT_TYPES = ".txt,.md,.csv,.tsv,.json,.yaml,.yml,.xml,.html,.css,.js,.ts,.py,.sh,.sql,.log,.toml,.ini";
const MOST_BYTES = 150_000;

/** @typedef {{name: string, text: string, bytes: number}} TextFile */

/** @param {File} file */
const isText = (file) => file.type.startsWith("text/") || TEXT_TYPES.split(",").some((ending) => file.name.toLowerCase().endsWith(ending));

/**
 * Read the files that are text. The others are left for whoever reads images.
 * @param {File[]} files
 * @param {readonly TextFile[]} there already
 * @returns {Promise<{texts: TextFile[], others: File[], faults: string[]}>}
 */
export async function readTexts(files, there) {
  const texts = [...there];
  /** @type {string[]} */
  const faults = [];
  for (const file of files.filter(isText)) {
    const sum = texts.reduce((all, each) => all + each.bytes, file.size);
    if (sum > MOST_BYTES) faults.push(`${file.name} is too much: the text files of a message may have ${size(MOST_BYTES)}.`);
    else texts.push({ name: file.name, text: await file.text(), bytes: file.size });
  }
  const others = files.filter((file) => !isText(file));
  for (const file of others.filter((each) => !each.type.startsWith("image/"))) faults.push(`${file.name} cannot be sent: agents take images and text files.`);
  return { texts, others: others.filter((file) => file.type.startsWith("image/")), faults };
}

/** The text of the message with its files behind it. @param {string} text @param {readonly TextFile[]} texts */
export function withTexts(text, texts) {
  const blocks = texts.map((file) => {
    const fence = "`".repeat(Math.max(3, ...[...file.text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
    return `${file.name}:\n${fence}${file.name.split(".").at(-1) ?? ""}\n${file.text.trimEnd()}\n${fence}`;
  });
  return [text, ...blocks].filter(Boolean).join("\n\n");
}

/** @param {{texts: readonly TextFile[], onDrop: (file: TextFile) => void}} props */
export const TextFiles = ({ texts, onDrop }) => html`<ul class="text-files" aria-label="Text files of this message">${texts.map((each) => html`
  <li key=${each.name}><${Icon} name="file-text" size=${14} /><span class="ellipsis" dir="auto">${each.name}</span><span class="faint">${size(each.bytes)}</span>
    <${IconButton} icon="x" label=${`Remove ${each.name}`} onClick=${() => onDrop(each)} /></li>`)}</ul>`;
