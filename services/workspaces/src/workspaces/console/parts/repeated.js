// Loading something again and again, without a request for each reason to.

/**
 * Loads one at a time, and again if that was wanted meanwhile: many events neither make many requests nor put off an answer.
 * @template T
 * @param {() => Promise<T>} load
 * @param {(found: T) => void} onData
 * @param {(fault: unknown) => void} onFault
 */
export function repeated(load, onData, onFault) {
  /** @type {Promise<void> | null} */
  let running = null;
  let wanted = false;
  let round = 0;
  const run = async () => {
    const mine = round;
    while (wanted && mine === round) {
      wanted = false;
      try {
        const found = await load();
        if (mine === round) onData(found);
      } catch (fault) {
        if (mine === round) onFault(fault);
      }
    }
    if (mine === round) running = null;
  };
  const reload = () => {
    wanted = true;
    return (running ??= run());
  };
  /** What is under way counts no more. */
  const end = () => void round++;
  /** Without waiting for what is under way, whose connection may be dead. */
  const restart = () => {
    end();
    running = null;
    return reload();
  };
  return { reload, restart, end };
}
