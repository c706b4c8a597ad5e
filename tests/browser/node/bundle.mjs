// Makes one module of packages: `node bundle.mjs TEXT` with the text of a module that exports from them.
import { build } from "esbuild";

const made = await build({
  stdin: { contents: process.argv[2], resolveDir: import.meta.dirname },
  tsconfigRaw: {}, // the paths in tsconfig.json are for types
  bundle: true,
  format: "esm",
  minify: true,
  target: "es2023",
  legalComments: "none",
  write: false,
});
process.stdout.write(made.outputFiles[0].text);
