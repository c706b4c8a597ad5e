// The REST API below /api/v1. Every failure is an ApiError with a sentence that can be shown.
import { capital } from "./lib.js";
import { csrf, expire } from "./state.js";

const BASE = "/api/v1";
const TIMEOUT_MS = 30_000;
/** An event of the window: a request succeeded. */
export const REACHED = "pallas-reached";

/** Why a request failed. `status` 0: the server did not answer. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {Partial<import("./answers").Problem>} problem
   * @param {number | null} retryAfter seconds
   */
  constructor(status, problem, retryAfter = null) {
    super(problem.error || `The server answered ${status}.`);
    this.status = status;
    this.code = problem.code || "";
    this.field = problem.field ?? null;
    this.faults = problem.faults ?? [];
    this.retryAfter = retryAfter;
  }
}

/**
 * @template T
 * @param {"GET" | "POST" | "PUT" | "PATCH" | "DELETE"} method
 * @param {string} path below /api/v1, such as "/workspaces"
 * @param {unknown} [body] sent as JSON
 * @param {{signal?: AbortSignal, keepalive?: boolean}} [options]
 * @returns {Promise<T>} undefined if the answer has no body
 */
export async function request(method, path, body, options = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "X-CSRF-Token": csrf() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const ends = AbortSignal.timeout(TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, ends]) : ends;
  let response;
  try {
    response = await fetch(BASE + path, {
      method, headers, signal, keepalive: options.keepalive ?? false,
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, { error: "Pallas cannot be reached right now.", code: "unreachable" });
  }
  if (response.ok) dispatchEvent(new Event(REACHED));
  if (response.ok) return response.status === 204 ? /** @type {T} */ (undefined) : response.json();
  if (response.status === 401 && path !== "/login") expire();
  const retry = Number(response.headers.get("Retry-After"));
  throw new ApiError(response.status, await problemOf(response), retry > 0 ? retry : null);
}

/** @param {Response} response @returns {Promise<Partial<import("./answers").Problem>>} */
async function problemOf(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

/** @template T @param {string} path @param {{signal?: AbortSignal}} [options] @returns {Promise<T>} */
export const get = (path, options) => request("GET", path, undefined, options);
/** @template T @param {string} path @param {unknown} [body] @returns {Promise<T>} */
export const post = (path, body) => request("POST", path, body);
/** @template T @param {string} path @param {unknown} body @returns {Promise<T>} */
export const put = (path, body) => request("PUT", path, body);
/** @template T @param {string} path @param {unknown} body @returns {Promise<T>} */
export const patch = (path, body) => request("PATCH", path, body);
/** @template T @param {string} path @returns {Promise<T>} */
export const remove = (path) => request("DELETE", path);

/** A path with its parts escaped: path`/workspaces/${id}`. @param {TemplateStringsArray} strings @param {...string} parts */
export const path = (strings, ...parts) =>
  strings.reduce((whole, text, i) => whole + encodeURIComponent(parts[i - 1] ?? "") + text);

/** The sentence to show for any error, without the name of the field in front: it stands beside that field. @param {unknown} error */
export function sentence(error) {
  const text = error instanceof Error ? error.message : String(error);
  const prefix = error instanceof ApiError && error.field ? `${error.field}: ` : "";
  return capital(text.startsWith(prefix) ? text.slice(prefix.length) : text);
}
