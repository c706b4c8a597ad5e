// Durations and sizes in words. Nothing here knows the page.

/** "0.4 ms", "840 ms", "1.20 s", "42.3 s", "3 min 05 s"; null: a dash. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return ms < 0.05 ? "0 ms" : `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(ms < 9_995 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  return seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`
    : `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, "0")} min`;
}

/** "1.4 MB". @param {number} bytes */
export const size = (bytes) =>
  bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
