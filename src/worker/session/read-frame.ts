import { type Parsed, parseJson, QueueFrame, quickQueueFrame, unpack } from '../../protocol/index.ts';

/** A frame of the queue. Jobs with a body come as bytes, and large ones: the queue makes no strings of them. */
export function readFrame(data: string | Uint8Array): Parsed<QueueFrame> {
  if (typeof data === 'string') return parseJson(QueueFrame, data, quickQueueFrame);
  const packed = unpack(data);
  if (packed === null) return parseJson(QueueFrame, new TextDecoder().decode(data), quickQueueFrame);
  const parsed = parseJson(QueueFrame, packed.head, quickQueueFrame);
  return parsed.ok ? { ok: true, value: withBody(parsed.value, packed.body) } : parsed;
}

function withBody(frame: QueueFrame, body: Uint8Array): QueueFrame {
  if (frame.type !== 'job' || body.byteLength === 0) return frame;
  return { ...frame, payload: { ...Object(frame.payload), body } };
}
