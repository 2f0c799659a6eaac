import type { EngineRoute } from '../../src/protocol/engine-routes.ts';
import type { JobFrame, RawWorker } from './raw-worker.ts';

/** Requests and answers in the form of each generating route, for workers that a test plays. */

export type Form = NonNullable<EngineRoute['generates']>;

const messages = (text: string) => [{ role: 'user', content: text }];
/** The body of a request in this form. */
export const asks = (form: Form, text: string): object => {
  switch (form) {
    case 'chats':
      return { messages: [messages(text)] };
    case 'text':
      return { prompt: text };
    case 'tokens':
      return { token_ids: [1, 2], prompt_text: text };
    case 'response':
      return { input: text };
    default:
      return { messages: messages(text) };
  }
};

/** The answers of an engine, whole and as streams. Token ids are no text, but engines may give both. */
export function answers(form: Form, text: string): { whole: object; events: object[] } {
  const pieces = text.match(/.{1,4}/gs)!;
  if (form === 'response') {
    const at = { output_index: 0, content_index: 0 };
    const item = (text: string) => ({
      type: 'message',
      id: 'm',
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text, annotations: [] }],
    });
    const response = (status: string, text?: string) => ({
      id: 'resp_e',
      object: 'response',
      status,
      output: text === undefined ? [] : [item(text)],
    });
    return {
      whole: response('completed', text),
      events: [
        { type: 'response.created', sequence_number: 0, response: response('in_progress') },
        {
          type: 'response.output_item.added',
          sequence_number: 1,
          output_index: 0,
          item: { ...item(''), content: [] },
        },
        {
          type: 'response.content_part.added',
          sequence_number: 2,
          ...at,
          part: { type: 'output_text', text: '', annotations: [] },
        },
        ...pieces.map((delta, n) => ({
          type: 'response.output_text.delta',
          sequence_number: 3 + n,
          ...at,
          delta,
        })),
        { type: 'response.output_text.done', sequence_number: 90, ...at, text },
        { type: 'response.output_item.done', sequence_number: 91, output_index: 0, item: item(text) },
        { type: 'response.completed', sequence_number: 92, response: response('completed', text) },
      ],
    };
  }
  if (form === 'message')
    return {
      whole: { type: 'message', content: [{ type: 'text', text }], stop_reason: 'end_turn' },
      events: [
        ...pieces.map((text) => ({
          type: 'content_block_delta',
          index: 0,
          delta: { type: 'text_delta', text },
        })),
        { type: 'message_stop' },
      ],
    };
  const isText = form === 'text' || form === 'tokens';
  return {
    whole: {
      choices: [
        {
          index: 0,
          ...(isText ? { text } : { message: { role: 'assistant', content: text } }),
          finish_reason: 'stop',
        },
      ],
    },
    events: [
      ...pieces.map((text) => ({
        choices: [{ index: 0, ...(isText ? { text } : { delta: { content: text } }), finish_reason: null }],
      })),
      { choices: [{ index: 0, ...(isText ? { text: '' } : { delta: {} }), finish_reason: 'stop' }] },
    ],
  };
}

const streamText = (form: Form, text: string) => {
  const { events } = answers(form, text);
  const names = events.map((event) => ('type' in event ? `event: ${event.type}\n` : ''));
  return (
    events.map((event, at) => `${names[at]}data: ${JSON.stringify(event)}\n\n`).join('') +
    (form === 'response' || form === 'message' ? '' : 'data: [DONE]\n\n')
  );
};

/**
 * Answers a job on its stream and as its result, in this form and with this text.
 * @param stream whether the answer is an event stream; `stored`: the one of a stored job, which its head says, so that
 *   the relay keeps it for readers who come later
 */
export function settle(
  worker: RawWorker,
  job: JobFrame,
  form: Form,
  text: string,
  stream: boolean | 'stored' = false,
): void {
  const isStream = stream !== false;
  const { job_id, fence_token, account, stream_id } = job;
  const whole = answers(form, text).whole;
  const body = isStream ? streamText(form, text) : JSON.stringify(whole);
  if (stream_id !== undefined) {
    const data = new TextEncoder().encode(body);
    const type = isStream ? 'text/event-stream' : 'application/json';
    const head = {
      status: 200,
      headers: { 'content-type': type },
      ...(stream === 'stored' && { replayed: true }),
    };
    worker.answer(
      { type: 'head', stream: stream_id, head },
      { type: 'bytes', stream: stream_id, offset: 0, data },
      { type: 'end', stream: stream_id, size: data.byteLength },
    );
  }
  const content_type = isStream ? 'text/event-stream' : 'application/json';
  const response = { status: 200, content_type, body: isStream ? body : whole };
  worker.send({ type: 'job_result', job_id, fence_token, account, result: { response } });
}
