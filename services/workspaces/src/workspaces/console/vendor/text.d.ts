export { Marked, type Token, type Tokens } from "marked";
export { default as DOMPurify } from "dompurify";
