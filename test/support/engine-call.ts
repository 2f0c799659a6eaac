import type { EngineCall } from '../../src/engine/client/types.ts';

/** What a call asks an engine, parsed; null: it has no body. Bytes need not be a Buffer, whose `String` is its text. */
export function readBody({ body }: EngineCall): unknown {
  return body === undefined ? null : JSON.parse(Buffer.from(body).toString());
}
