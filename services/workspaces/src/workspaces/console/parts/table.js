// A table that becomes a list of cards where it is narrow.
import { html } from "../lib.js";

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => import("../lib.js").Children} cell
 * @property {boolean} [number] aligned to the right
 * @property {string} [class]
 */

/** @param {Column<any>} column */
const classOf = (column) => (column.number ? "number" : (column.class ?? ""));

/**
 * `href`: where a click on a row leads; the first cell becomes the link.
 * @template T
 * @param {{label: string, columns: Column<T>[], rows: T[], keyOf: (row: T) => string | number, href?: (row: T) => string}} props
 */
export const Table = ({ label, columns, rows, keyOf, href }) => html`
  <div class="table-frame" role="region" aria-label=${label} tabindex="0"><table aria-label=${label}>
    <thead><tr>${columns.map((column) => html`<th scope="col" class=${classOf(column)}>${column.title}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)} class=${href ? "leads" : ""}>${columns.map((column, i) => html`
      <td class=${classOf(column)} data-title=${column.title}>${i === 0 && href
        ? html`<a class="row-link" href=${href(row)}>${column.cell(row)}</a>` : column.cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
