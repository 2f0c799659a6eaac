/**
 * Programs submit far more at a time than people ask for, and one thread works on all of it. So their submissions take
 * turns: only so much of them is read, checked and on its way to the queue at a time, and everybody else is served
 * between two of them.
 */

/** The bytes of submissions that are worked on at a time; a longer submission has a turn for itself. */
const MOST_BYTES = 256 * 1024;
/**
 * A submission that waits looks whether it may begin after `first` ms, then after twice as long each time, up to
 * `most`.
 */
const POLL_MS = { first: 2, most: 64 };

let bytesAtWork = 0;

/**
 * Waits for a submission's turn. It polls: on Cloudflare no request can wait for a promise that another one resolves.
 * @param bytes of the submission
 * @returns a function that ends the turn, also when the submitter has left; it may be called twice
 */
export async function takeTurn(bytes: number): Promise<() => void> {
  for (
    let most = POLL_MS.first;
    bytesAtWork > 0 && bytesAtWork + bytes > MOST_BYTES;
    most = Math.min(2 * most, POLL_MS.most)
  ) {
    // The times are spread at random: otherwise all would look at the same moments, and only the first would find room.
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
