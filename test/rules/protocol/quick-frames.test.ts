import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  AnswerHead,
  EngineRequest,
  JobSubmission,
  parseValue,
  QueueFrame,
  quickAnswerHead,
  quickEngineRequest,
  quickQueueFrame,
  quickSubmission,
  quickWorkerFrame,
} from '../../../src/protocol/index.ts';
import { WorkerFrame } from '../../../src/protocol/worker-frames.ts';

const JOB = {
  type: 'job',
  job_id: 'j1',
  mode: 'transient',
  config_id: 'c',
  payload: { path: '/v1/chat/completions', body: '{}' },
  fence_token: 7,
  job_type: 'engine_request',
  attempt: 1,
  deadline_ms: 0.5,
  lease_seconds: 30,
  trace: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, queued_ms: 3, attempts_left: 2 },
  stream_id: 3,
};
const ACK = { type: 'ack', job_id: 'j1', fence_token: 7, outcome: 'accepted' };
const RESULT = {
  type: 'job_result',
  job_id: 'j1',
  fence_token: 7,
  result: { status: 'success' },
  timing: { started_ms: 0, first_token_ms: 1.5 },
  usage: { prompt_tokens: 2, completion_tokens: 3 },
};
const LOAD = { type: 'load', running: 1, waiting: 0, kv_cache_usage: 0.5, slots_free: 3 };

const HEAD = {
  status: 200,
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  replayed: true,
  dialect: 'anthropic',
};

const REQUEST = {
  method: 'POST',
  path: '/v1/chat/completions',
  body: '{}',
  content_type: 'application/json; charset=utf-8',
  headers: { 'x-request-id': 'a' },
};

const SUBMISSION = {
  id: 'a.b:c-1',
  job_type: 'chat_completion',
  payload: { messages: [] },
  config_id: 'c',
  priority: -5,
  max_attempts: 7,
  deadline_seconds: 0.5,
  stream: true,
  webhook: 'https://a.example',
};
const PLAIN_SUBMISSION = { job_type: 'engine_request', payload: {} };

/** What a stranger may put in the place of any field. */
const odd = fc.constantFrom<unknown>(
  undefined,
  null,
  true,
  '',
  'persisted',
  'x'.repeat(257),
  -1,
  0,
  0.5,
  1,
  2,
  2 ** 32,
  2 ** 53,
  1e300,
  [],
  {},
  { started_ms: -1 },
  { started_ms: 1, more: 1 },
  { prompt_tokens: 1 },
  199,
  404,
  'openai',
  { 'x-a': 'ä' },
  { 'x-a': 'a\nb' },
  { 'x a': 'b' },
  { prompt_tokens: 1, completion_tokens: 0.5 },
  { tracestate: 'x'.repeat(513) },
  { is_link: true, previous_fence: 4 },
  { queued_ms: -1 },
  '/v1/../sleep',
  '/v1/models/a.b?c=1',
  'GET',
  'a/b\r\nc: d',
  '.',
  '..',
  101,
  -1000.5,
  1001,
  2_592_001,
  { 'x-a': 'x'.repeat(4097) },
  { ['x'.repeat(65)]: 'a' },
);

describe.each([
  ['frames of the queue', quickQueueFrame, QueueFrame, [JOB, ACK]],
  ['frames of a worker', quickWorkerFrame, WorkerFrame, [RESULT, LOAD]],
  ['the head of an answer', quickAnswerHead, AnswerHead, [HEAD]],
  ['requests to an engine', quickEngineRequest, EngineRequest, [REQUEST]],
  ['submissions', quickSubmission, JobSubmission, [SUBMISSION, PLAIN_SUBMISSION]],
] as const)('quick checks of %s', (_peer, quick, schema, frames) => {
  it.each<object>([...frames])('take %s as the schema does', (frame) => {
    expect(quick(frame)).toStrictEqual(parseValue<unknown>(schema, frame).ok && schema.parse(frame));
    expect(quick({ ...frame, more: 1 })).toStrictEqual(schema.parse(frame));
  });

  it('take nothing that the schema refuses, and give what it gives, whatever stands in a field', () => {
    const names = [
      ...new Set(frames.flatMap((frame) => Object.keys(frame))),
      'payload_url',
      'body_base64',
      'more',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom<object>(...frames),
        fc.dictionary(fc.constantFrom(...names), odd, { maxKeys: 3 }),
        (frame, changed) => {
          // As it comes from JSON: nothing is undefined.
          const data: unknown = JSON.parse(JSON.stringify({ ...frame, ...changed }));
          const taken = quick(data);
          if (taken === null) return;
          const parsed = parseValue<unknown>(schema, data);
          expect(parsed).toStrictEqual({ ok: true, value: taken });
        },
      ),
      { numRuns: 3000 },
    );
  });

  it.each([null, 1, 'job', [], {}, { type: 'x' }, { type: 'toString' }])('leave %s to the schema', (data) => {
    expect(quick(data)).toBeNull();
  });
});
