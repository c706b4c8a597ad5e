// Images of drafts, in the browser's database, so that they are there when the page is loaded again.
import { draftPictures } from "./drafts.js";

/** @typedef {import("./images.js").Picture} Picture */

/** @type {Promise<IDBDatabase> | undefined} */
let opened;

const open = () => (opened ??= new Promise((resolve, reject) => {
  const asked = indexedDB.open("pallas", 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore("pictures");
  asked.onsuccess = () => {
    asked.result.onversionchange = close;
    resolve(asked.result);
  };
  asked.onerror = () => reject(asked.error);
}));

/** Somebody has logged out, here or in another tab. */
function close() {
  draftPictures.clear();
  void opened?.then((database) => database.close(), () => undefined);
  opened = undefined;
}

/** Keep these for the draft, or forget them if there are none. Failures cost the images of the next load only.
 * @param {string} place @param {readonly Picture[]} pictures */
export async function keepPictures(place, pictures) {
  try {
    const store = (await open()).transaction("pictures", "readwrite").objectStore("pictures");
    if (pictures.length) store.put(pictures.map(({ url, ...picture }) => picture), place);
    else store.delete(place);
  } catch {
    // the browser keeps nothing for this page
  }
}

/** @param {string} place @returns {Promise<Picture[]>} */
export async function keptPictures(place) {
  try {
    const asked = (await open()).transaction("pictures").objectStore("pictures").get(place);
    const found = await new Promise((resolve, reject) => {
      asked.onsuccess = () => resolve(asked.result ?? []);
      asked.onerror = () => reject(asked.error);
    });
    return found.map((/** @type {Omit<Picture, "url">} */ picture) => ({ ...picture, url: URL.createObjectURL(blobOf(picture)) }));
  } catch {
    return [];
  }
}

/** @param {Omit<Picture, "url">} picture */
const blobOf = ({ data, mime_type }) => new Blob([Uint8Array.from(atob(data), (sign) => sign.charCodeAt(0))], { type: mime_type });
