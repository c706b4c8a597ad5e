// Images of a message that is being written.
import { html, useEffect, useRef, useState } from "../lib.js";
import { IconButton } from "../parts/basic.js";
import { size } from "../parts/units.js";

export const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST = 8;
const MOST_BYTES = 5 * 1024 * 1024;
const MOST_IN_ALL = 8 * 1024 * 1024;

/** `url` is of the browser's memory. @typedef {{name: string, mime_type: string, bytes: number, data: string, url: string}} Picture */

/**
 * Read these files, as far as they can be sent.
 * @param {File[]} files
 * @param {Picture[]} there already
 * @returns {Promise<{pictures: Picture[], faults: string[]}>}
 */
export async function readPictures(files, there) {
  const pictures = [...there];
  /** @type {string[]} */
  const faults = [];
  for (const file of files) {
    const name = file.name || "The image";
    const [mime_type, bytes] = [file.type, file.size];
    const sum = pictures.reduce((all, each) => all + each.bytes, bytes);
    if (!TYPES.includes(mime_type)) faults.push(`${name} is not a PNG, JPEG, GIF or WebP image.`);
    else if (bytes > MOST_BYTES) faults.push(`${name} has ${size(bytes)}; an image may have ${size(MOST_BYTES)}.`);
    else if (pictures.length >= MOST) faults.push(`${name} is one too many: a message may have ${MOST} images.`);
    else if (sum > MOST_IN_ALL) faults.push(`${name} is too much: all images of a message may have ${size(MOST_IN_ALL)}.`);
    else if (!(await isPicture(file))) faults.push(`${name} cannot be read as an image.`);
    else pictures.push({ name, mime_type, bytes, data: await base64(file), url: URL.createObjectURL(file) });
  }
  return { pictures, faults };
}

/** @param {File} file */
const isPicture = (file) => createImageBitmap(file).then((bitmap) => (bitmap.close(), true), () => false);

/** @param {File} file @returns {Promise<string>} */
const base64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** @param {{pictures: Picture[], onDrop: (picture: Picture) => void}} props */
export const Thumbnails = ({ pictures, onDrop }) => html`
  <ul class="thumbnails" aria-label="Images of this message">${pictures.map((each) => html`
    <li key=${each.url}><img src=${each.url} alt=${each.name} />
      <${IconButton} icon="x" label=${`Remove ${each.name}`} onClick=${() => onDrop(each)} /></li>`)}</ul>`;

/**
 * True while images are dragged over the chat; `take` gets what is dropped.
 * @param {{current: HTMLElement | null}} inside
 * @param {(files: File[]) => unknown} take
 */
export function useDrop(inside, take) {
  const [over, setOver] = useState(false);
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    const place = /** @type {HTMLElement} */ (inside.current?.closest(".chat"));
    const ended = new AbortController();
    /** @param {"dragover" | "dragleave" | "drop"} kind @param {(event: any) => void} act */
    const listen = (kind, act) => place?.addEventListener(kind, act, { signal: ended.signal });
    listen("dragover", (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    });
    listen("dragleave", (event) => (event.relatedTarget && place.contains(event.relatedTarget)) || setOver(false));
    listen("drop", (event) => {
      event.preventDefault();
      setOver(false);
      latest.current([...(event.dataTransfer?.files ?? [])]);
    });
    return () => ended.abort();
  }, []);
  return over;
}
