import type { IncomingMessage } from 'node:http';
import { HttpError } from '../../../gateway/errors.ts';
import { BODY_WITHIN_MS, tooSlow } from '../../../gateway/receive.ts';

/**
 * Reads the whole of a body whose head gives the length.
 * @throws HttpError 408 when it comes too slowly, 499 when its caller leaves
 */
export function readShortBody(incoming: IncomingMessage): Promise<Uint8Array<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const bytes = new Uint8Array(Number(incoming.headers['content-length']));
    let size = 0;
    const timer = setTimeout(() => over(() => reject(tooSlow())), BODY_WITHIN_MS);
    const onData = (piece: Buffer) => {
      bytes.set(piece, size);
      size += piece.byteLength;
    };
    const onEnd = () => over(() => resolve(bytes));
    const onClose = () => over(() => reject(new HttpError(499, 'The caller hung up.', 'caller_gone')));
    const over = (settle: () => void) => {
      clearTimeout(timer);
      incoming.off('data', onData).off('end', onEnd).off('close', onClose);
      settle();
    };
    incoming.on('data', onData).on('end', onEnd).on('close', onClose);
  });
}
