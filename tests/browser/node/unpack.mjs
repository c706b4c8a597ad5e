// Decompresses the Brotli file of the first argument into the file of the second.
import { readFileSync, writeFileSync } from "node:fs";
import { brotliDecompressSync } from "node:zlib";

const [packed, plain] = process.argv.slice(2);
writeFileSync(plain, brotliDecompressSync(readFileSync(packed)));
