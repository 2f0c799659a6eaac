/**
 * Returns a body that passes another on, and tells what that was when it is over, before its reader learns the end.
 * @param most the bytes that are told; what is longer is cut
 * @param mayHold counts the bytes of a piece; false: what comes is left out from there on
 */
export function seen(
  body: ReadableStream<Uint8Array>,
  most: number,
  mayHold: (bytes: number) => boolean,
  tell: (body: { bytes: Uint8Array; isCut: boolean }, isWhole: boolean) => Promise<void>,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const pieces: Uint8Array[] = [];
  let length = 0;
  let isCut = false;
  let told: Promise<void> | null = null;
  // A reader that leaves ends the read that is under way too, which is not the end of the answer.
  const over = (isWhole: boolean) => {
    told ??= tell({ bytes: joined(pieces, length), isCut }, isWhole);
    return told;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          await over(true);
          return controller.close();
        }
        if (!isCut) {
          // The reader may free the piece that it is given.
          const kept = value.slice(0, most - length);
          const isHeld = mayHold(kept.byteLength);
          isCut = !isHeld || kept.byteLength < value.byteLength;
          if (isHeld) {
            pieces.push(kept);
            length += kept.byteLength;
          }
        }
        controller.enqueue(value);
      } catch (error) {
        await over(false);
        controller.error(error);
      }
    },
    async cancel(reason) {
      await Promise.all([over(false), reader.cancel(reason)]);
    },
  });
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.byteLength;
  }
  return whole;
}
