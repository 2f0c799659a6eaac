import * as z from 'zod';
import { parseJson } from '../../../protocol/index.ts';

/**
 * The messages of two processes on a peer link. One end is a port, which has answer sockets of workers; the other is a
 * home, whose relays pass streams on. A channel is one answer socket.
 *
 * - Port to home, as JSON: `open` and `closed` of a channel.
 * - Home to port, as JSON: `close`, which closes the answer socket of a channel.
 * - Both ways, as bytes: the number of a channel (u32), and records as on the answer socket. Without records it is a
 *   sign of life of the worker.
 *
 * Both ends are linked to the same queue, which refuses another version, so there is none here.
 */
export type PortMessage = z.infer<typeof PortMessage>;
const channel = z.number().int().min(0).max(0xffff_ffff);
export const PortMessage = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('open'),
    channel,
    queue_id: z.string(),
    worker_id: z.string(),
    /** The time since the worker opened the socket. */
    age_ms: z.number().min(0),
  }),
  z.object({ type: z.literal('closed'), channel }),
]);

export type HomeMessage = z.infer<typeof HomeMessage>;
export const HomeMessage = z.object({
  type: z.literal('close'),
  channel,
  code: z.number().int(),
  reason: z.string(),
});

/** The size of a channel's number. */
export const CHANNEL_BYTES = 4;

/** Returns a message for a channel. */
export function channelMessage(channel: number, records: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = Buffer.allocUnsafe(CHANNEL_BYTES + records.byteLength);
  message.writeUInt32BE(channel);
  message.set(records, CHANNEL_BYTES);
  return message;
}

/** Returns the channel of a message, and its records; null: it is no message of a channel. */
export function readChannelMessage(
  message: Uint8Array,
): { channel: number; records: Uint8Array<ArrayBuffer> } | null {
  if (message.byteLength < CHANNEL_BYTES) return null;
  const bytes = Buffer.from(message.buffer as ArrayBuffer, message.byteOffset, message.byteLength);
  return { channel: bytes.readUInt32BE(), records: bytes.subarray(CHANNEL_BYTES) };
}

/** Returns the message that a text holds. @throws Error if it is none */
export function readJson<T>(schema: z.ZodType<T>, text: string): T {
  const read = parseJson(schema, text);
  if (read.ok) return read.value;
  throw new Error(`a peer's message cannot be read: ${read.message}`);
}
