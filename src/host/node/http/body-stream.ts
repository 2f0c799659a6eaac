import type { IncomingMessage } from 'node:http';
import { HttpError } from '../../../gateway/errors.ts';

/** The error that ends the body of each broken request. */
const faults = new WeakMap<IncomingMessage, HttpError>();

/** Breaks a body whose next bytes are malformed: its reader gets what came before, and then this error. */
export function breakBody(incoming: IncomingMessage, fault: HttpError): void {
  if (faults.has(incoming)) return;
  faults.set(incoming, fault);
  incoming.emit('error', fault);
}

/**
 * Returns the body of a request as a stream of bytes. Nothing is read ahead: bytes that the gateway has not asked for
 * stay in the connection, and their sender waits.
 * @param begin is called before the first read
 */
export function bodyStream(incoming: IncomingMessage, begin: () => void): ReadableStream<Uint8Array> {
  let rest: Buffer | null = null;
  let hasBegun = false;
  let wake = () => {};
  const begins = () => {
    hasBegun = true;
    begin();
    const look = () => wake();
    incoming.on('readable', look).on('end', look).on('error', look).on('close', look);
  };
  const read = async (): Promise<Buffer | null> => {
    if (!hasBegun) begins();
    for (;;) {
      const piece = rest ?? (incoming.read() as Buffer | null);
      rest = null;
      if (piece !== null) return piece;
      if (incoming.readableEnded) return null;
      const fault = faults.get(incoming);
      if (fault) throw fault;
      // The error is not the queue's: nobody reads the answer, and nothing is logged.
      if (incoming.destroyed) throw new HttpError(499, 'The caller hung up.', 'caller_gone');
      await new Promise<void>((done) => {
        wake = done;
      });
    }
  };
  const pull = async (controller: ReadableByteStreamController) => {
    const piece = await read();
    const asked = controller.byobRequest;
    if (piece === null) {
      controller.close();
      asked?.respond(0);
    } else if (asked?.view) {
      const { buffer, byteOffset, byteLength } = asked.view;
      const taken = piece.subarray(0, byteLength);
      if (taken.byteLength < piece.byteLength) rest = piece.subarray(byteLength);
      new Uint8Array(buffer, byteOffset, byteLength).set(taken);
      asked.respond(taken.byteLength);
    } else {
      // The piece is copied: the stream takes the whole buffer over, and pieces of a body share one.
      controller.enqueue(new Uint8Array(piece));
    }
  };
  return new ReadableStream({ type: 'bytes', pull }, { highWaterMark: 0 });
}
