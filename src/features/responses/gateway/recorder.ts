import { EventEnds, eventData, joinBytes, splitEvents } from '../../../protocol/index.ts';
import { endedResponse, eventText, jsonObject } from '../response-object.ts';
import { type EndedResponse, type Fields, isFinal } from '../types.ts';

/** What the gateway does with the answer of an engine on its way to the caller. */
export interface Recording {
  /** The fields that each Response object of the answer gets, since the engine does not know them. */
  fields: Fields;
  /** Stores the end of the response, before the caller reads of it. */
  keep(ended: EndedResponse): Promise<void>;
  /** Is called if the answer ends without a response. */
  lost(): Promise<void>;
}

/** Matches events that hold a whole Response object. */
const HAS_RESPONSE =
  /^(?:event: [^\n]*\n)?data: \{(?=[^\n]*"type": ?"response\.(?:created|queued|in_progress|completed|incomplete|failed)")/;

const encoder = new TextEncoder();

/** Returns an engine's answer with the response's own id and fields; its end is stored before the caller reads it. */
export async function recorded(answer: Response, recording: Recording): Promise<Response> {
  if (!answer.ok || answer.body === null) {
    await recording.lost();
    return answer;
  }
  const isStream = answer.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  if (isStream) return new Response(answer.body.pipeThrough(recorder(recording)), answer);
  const text = await answer.text();
  const response = jsonObject(text);
  const headers = new Headers(answer.headers);
  headers.delete('content-length');
  if (response === null || typeof response.status !== 'string') {
    await recording.lost();
    return new Response(text, { status: answer.status, headers });
  }
  const whole = { ...response, ...recording.fields };
  if (isFinal(response.status)) await recording.keep(endedResponse(whole));
  else await recording.lost();
  return new Response(JSON.stringify(whole), { status: answer.status, headers });
}

function recorder(recording: Recording): TransformStream<Uint8Array, Uint8Array> {
  const ends = new EventEnds();
  let held: Uint8Array[] = [];
  let isOver = false;
  const decoder = new TextDecoder();
  const events = async (bytes: Uint8Array): Promise<Uint8Array> => {
    const text = decoder.decode(bytes);
    // Most pieces are deltas, whose bytes stay as they are.
    if (!text.includes('"response":')) return bytes;
    const passed: string[] = [];
    for (const event of splitEvents(text)) passed.push(await one(event));
    return encoder.encode(passed.join(''));
  };
  const one = async (event: string): Promise<string> => {
    if (!HAS_RESPONSE.test(event)) return event;
    const data = jsonObject(eventData(event));
    const response = Object(data?.response) as Fields;
    if (data === null) return event;
    const whole = { ...response, ...recording.fields };
    if (!isFinal(String(response.status))) return eventText({ ...data, response: whole });
    if (!isOver) await recording.keep(endedResponse(whole));
    isOver = true;
    // vLLM names the end of every response "completed".
    return eventText({ ...data, type: `response.${String(response.status)}`, response: whole });
  };
  return new TransformStream({
    async transform(piece, controller) {
      const end = ends.see(piece);
      if (end === 0) return void held.push(piece.slice());
      const whole = joinBytes([...held, piece.subarray(0, end)]);
      held = end < piece.byteLength ? [piece.slice(end)] : [];
      controller.enqueue(await events(whole));
    },
    async flush(controller) {
      if (held.length > 0) controller.enqueue(await events(joinBytes(held)));
      if (!isOver) await recording.lost();
    },
    /** Is called when the caller is gone, or the answer breaks. */
    async cancel() {
      if (!isOver) await recording.lost();
    },
  });
}
