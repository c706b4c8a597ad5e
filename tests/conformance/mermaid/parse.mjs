// Parses the charts in a JSON array on standard input with Mermaid, and prints what it found in each of them.
import { readFileSync } from "node:fs";
import { JSDOM } from "jsdom";

globalThis.window = new JSDOM("").window;
globalThis.document = window.document;
const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false, securityLevel: "strict", maxEdges: 1e6, maxTextSize: 1e8 });

// The lines of a label as Mermaid writes it into the page, and how many elements it has besides line breaks.
const element = document.createElement("div");
const textOf = (html) => ((element.innerHTML = html), element.textContent);
const shown = (text) => {
  element.innerHTML = text.replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
  const elements = element.querySelectorAll(":not(br)").length;
  return { elements, lines: element.innerHTML.split("<br>").map(textOf) };
};

const charts = JSON.parse(readFileSync(0, "utf8"));
const found = [];
for (const chart of charts) {
  const { db, type } = await mermaid.mermaidAPI.getDiagramFromText(chart);
  const vertices = [...db.getVertices().values()];
  found.push({
    type,
    direction: db.getDirection(),
    labels: vertices.map(({ text }) => shown(text)),
    classes: vertices.map(({ classes }) => classes),
    links: vertices.filter(({ link, haveCallback }) => link || haveCallback).length,
    edges: db.getEdges().map(({ start, end, stroke }) => [start, end, stroke]),
    subgraphs: db.getSubGraphs().length,
  });
}
console.log(JSON.stringify(found));
