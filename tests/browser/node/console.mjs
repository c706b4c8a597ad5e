// Bundles the console: `node console.mjs CONSOLE OUTPUT`. What the page names is one script and one style sheet.
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";

const [root, outdir] = process.argv.slice(2);
const page = await readFile(join(root, "index.html"), "utf8");
const named = (rel) => [...page.matchAll(new RegExp(`<link rel="${rel}" href="/assets/([^"]+)">\\s*`, "g"))];
const [styles, scripts] = [named("stylesheet"), named("modulepreload")];
const options = {
  absWorkingDir: root, outdir, bundle: true, minify: true, format: "esm", target: "es2023", legalComments: "none",
  tsconfigRaw: {}, chunkNames: "[name]-[hash]",
};

// Modules that every entry imports end up in one chunk.
const imports = scripts.map(([, name]) => `import "${join(root, name)}";`).join("");
const together = {
  name: "together",
  setup: (all) =>
    all.onLoad({ filter: /\/(app|views\/\w+)\.js$/ }, async ({ path }) => ({ contents: imports + (await readFile(path, "utf8")) })),
};
const made = await build({ ...options, entryPoints: ["app.js"], splitting: true, metafile: true, plugins: [together] });
const app = Object.values(made.metafile.outputs).find((each) => each.entryPoint === "app.js");
const chunks = app.imports.filter((each) => each.kind === "import-statement").map((each) => each.path.split("/").at(-1));

const first = styles[0][1];
await build({
  ...options, external: ["/assets/*"], entryNames: first.replace(".css", ""),
  stdin: { contents: styles.map(([, name]) => `@import "./${name}";`).join(""), resolveDir: root, loader: "css" },
});
const others = ["admin.css", "chat.css", "markdown.css", "turns.css"];
await build({ ...options, entryPoints: others });

let text = page;
for (const [link] of [...styles.slice(1), ...scripts]) text = text.replace(link, "");
const preloads = chunks.map((name) => `<link rel="modulepreload" href="/assets/${name}">\n  `).join("");
await writeFile(join(outdir, "index.html"), text.replace("<script", `${preloads}<script`));
