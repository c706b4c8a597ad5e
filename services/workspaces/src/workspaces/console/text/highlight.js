// Colours for code: comments, strings, numbers and keywords, told apart well enough to read it.

const STRINGS = /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`(?:\\.|[^`\\])*`?/.source;
const NUMBERS = /\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b/.source;
const C_COMMENTS = /\/\/.*|\/\*[\s\S]*?(?:\*\/|$)/.source;
const HASH_COMMENTS = /#.*/.source;
const WORDS = `abstract as async await break case catch class const continue def default defer del do elif else enum except
  export extends false finally fn for from func function go if impl implements import in interface is lambda let match mod
  mut new nil none not null or and package pass private protected pub public raise return self static struct super switch
  this throw true try type use var void where while with yield
  select insert update delete into values join left inner outer on group order by limit create table`;
const KEYWORDS = `\\b(?:${WORDS.split(/\s+/).join("|")})\\b`;

const C_LIKE = `js javascript ts typescript jsx tsx json jsonc java kotlin c cpp csharp cs go rust rs swift php css scss dart`;
const HASHED = `py python sh bash shell zsh yaml yml toml ruby rb r perl dockerfile make ini cst`;

/** The rules of some languages, by name. @param {string} names @param {string} comments @returns {[string, RegExp][]} */
function rules(names, comments) {
  const rule = new RegExp(`(${comments})|(${STRINGS})|(${NUMBERS})|(${KEYWORDS})`, "gi");
  return names.split(" ").map((name) => [name, rule]);
}

const RULES = new Map([...rules(C_LIKE, C_COMMENTS), ...rules(HASHED, HASH_COMMENTS), ...rules("sql", "--.*")]);
const CLASSES = ["comment", "string", "number", "keyword"];

/**
 * The code as HTML, with a span around each part that has a colour.
 * @param {string} code
 * @param {string} language
 * @param {(text: string) => string} escape
 */
export function highlighted(code, language, escape) {
  const found = RULES.get(language.toLowerCase());
  if (!found) return escape(code);
  let html = "";
  let at = 0;
  for (const hit of code.matchAll(found)) {
    const kind = CLASSES[hit.slice(1).findIndex((part) => part !== undefined)];
    html += `${escape(code.slice(at, hit.index))}<span class="c-${kind}">${escape(hit[0])}</span>`;
    at = hit.index + hit[0].length;
  }
  return html + escape(code.slice(at));
}
