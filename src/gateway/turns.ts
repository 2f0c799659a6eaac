/**
 * Programs submit far more at a time than people ask for, and all of it is worked on by one thread. So their
 * submissions are taken in turns: only so much of them is read, checked and on its way to the queue at a time, and
 * between two of them everybody else is served.
 */

/** Bytes of submissions that are worked on at a time; one that is longer has a turn for itself. */
const MOST_BYTES = 256 * 1024;
/** One that waits looks whether it may begin after so long, ms, then after twice as long. */
const POLL_MS = { first: 2, most: 64 };

let bytesAtWork = 0;

/**
 * Waits until it is its turn. It polls: on Cloudflare no request can wait for a promise that another one resolves.
 * @param bytes of the submission
 * @returns ends the turn, and is also called when the submitter is gone; may be called twice
 */
export async function takeTurn(bytes: number): Promise<() => void> {
  for (
    let most = POLL_MS.first;
    bytesAtWork > 0 && bytesAtWork + bytes > MOST_BYTES;
    most = Math.min(2 * most, POLL_MS.most)
  ) {
    // Spread at random, or all would look at the same moments and only the first would find room.
    const ms = most * (0.5 + Math.random() / 2);
    await new Promise((done) => setTimeout(done, ms));
  }
  bytesAtWork += bytes;
  let isOver = false;
  return () => {
    if (!isOver) bytesAtWork -= bytes;
    isOver = true;
  };
}
