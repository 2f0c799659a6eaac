import { describe, expect, it } from 'vitest';
import type { Job } from '../../../src/protocol/index.ts';
import { genAiRequest, placeOf, type Span } from '../../../src/worker/tracing/attributes.ts';
import { Tracer } from '../../../src/worker/tracing/job-spans.ts';
import { tracingSettings } from '../../../src/worker/tracing/settings.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const CALLER = '00f067aa0ba902b7';

function jobOf(more: Partial<Job> = {}): Job {
  return {
    type: 'job',
    job_id: 'j1',
    mode: 'transient',
    config_id: 'cfg',
    fence_token: 7,
    payload: { path: '/v1/completions', headers: { traceparent: `00-${TRACE}-${CALLER}-01` } },
    trace: { queued_ms: 50, attempts_left: 2 },
    ...more,
  };
}

const ORIGIN = { workerId: 'w', engine: { name: 'vllm', host: 'localhost', port: 8000 } };
const CALL = { method: 'POST', path: '/v1/completions', signal: new AbortController().signal };

function spansOf(job: Job, end: Parameters<ReturnType<Tracer['begin']>['end']>[0]): Span[] {
  const spans: Span[] = [];
  const tracer = new Tracer('q', ORIGIN, { isSampled: () => true, emit: (some) => spans.push(...some) });
  const trace = tracer.begin(job, 1000);
  trace.request(CALL, 1010);
  trace.answered(200);
  trace.end(end, { usage: null, firstTokenAtMs: null }, 1500);
  return spans;
}

const names = (spans: Span[]) => spans.map(({ name }) => name);

describe('the gateway’s spans are told', () => {
  it.each([
    [{ result: 'succeeded' }, 2, true],
    [{ result: 'failed', code: 'engine_error', retryable: true }, 2, false],
    [{ result: 'failed', code: 'engine_error', retryable: true }, 0, true],
    [{ result: 'failed', code: 'engine_refused', retryable: false }, 2, true],
    [{ result: 'released', reason: 'draining' }, 2, false],
    [{ result: 'revoked', reason: 'lease_lost' }, 2, false],
    [{ result: 'revoked', reason: 'caller_gone' }, 2, true],
  ] as const)('by the attempt that ends the job: %j, %d left: %s', (end, attempts_left, isTold) => {
    const spans = spansOf(jobOf({ trace: { queued_ms: 50, attempts_left } }), end);
    expect(names(spans).includes('send cfg')).toBe(isTold);
    expect(names(spans)).toContain('process cfg');
  });
});

it('the wait is the length of the span that submits', () => {
  const [server, send, process] = spansOf(jobOf(), { result: 'succeeded' });
  expect([server?.startMs, server?.endMs]).toEqual([950, 1500]);
  expect([send?.startMs, send?.endMs]).toEqual([950, 1000]);
  expect([process?.startMs, process?.endMs]).toEqual([1000, 1500]);
});

it('after a wait of more than ten minutes an attempt begins a trace, linked both ways', () => {
  const spans = spansOf(jobOf({ trace: { queued_ms: 600_001 } }), { result: 'succeeded' });
  const [, send, process, chat] = spans;
  expect(send).toMatchObject({ traceId: TRACE, links: [{ spanId: process?.spanId }] });
  expect(process).toMatchObject({ parent: null, links: [{ traceId: TRACE, spanId: send?.spanId }] });
  expect(process?.traceId).not.toBe(TRACE);
  expect(chat?.traceId).toBe(process?.traceId);
  const soon = spansOf(jobOf({ trace: { queued_ms: 600_000 } }), { result: 'succeeded' });
  expect(soon[2]).toMatchObject({ traceId: TRACE, parent: { spanId: soon[1]?.spanId }, links: [] });
});

it('workers that try one job name what they share alike, and what is theirs differently', () => {
  const first = placeOf('q', jobOf());
  const second = placeOf('q', jobOf({ fence_token: 8, trace: { previous_fence: 7 } }));
  expect([second.serverId, second.sendId, second.traceId]).toEqual([first.serverId, first.sendId, TRACE]);
  expect(second.previous).toEqual({ traceId: TRACE, spanId: first.attempt.spanId });
  expect(second.attempt.spanId).not.toBe(first.attempt.spanId);
  const own = placeOf('q', jobOf({ payload: {} }));
  expect(own.traceId).toMatch(/^[\da-f]{32}$/);
  expect(own.traceId).not.toBe(placeOf('other', jobOf({ payload: {} })).traceId);
});

it('a request tells its parameters and nothing that was said', () => {
  const body = JSON.stringify({ model: 'm', stream: true, max_tokens: 4, prompt: 'secret', user: 'secret' });
  const { operation, model, attributes } = genAiRequest({
    method: 'POST',
    path: '/v1/completions?x=secret',
    body,
  });
  expect([operation, model]).toEqual(['text_completion', 'm']);
  expect(attributes).toMatchObject({ 'gen_ai.request.stream': true, 'gen_ai.request.max_tokens': 4 });
  expect(JSON.stringify(attributes)).not.toContain('secret');
  expect(genAiRequest({ method: 'POST', path: '/v1/messages', body: 'no json' }).operation).toBe('chat');
  expect(genAiRequest({ method: 'POST', path: '/rerank' }).operation).toBe('rerank');
});

describe('the settings', () => {
  const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318' };
  it('export nothing without an endpoint, and where that is switched off', () => {
    expect(tracingSettings({})).toBeNull();
    expect(tracingSettings({ ...ENDPOINT, OTEL_SDK_DISABLED: 'true' })).toBeNull();
    expect(tracingSettings({ ...ENDPOINT, OTEL_TRACES_EXPORTER: 'none' })).toBeNull();
  });

  it('are OpenTelemetry’s, with a warning for each that means nothing here', () => {
    const of = (env: Record<string, string>) => tracingSettings({ ...ENDPOINT, ...env });
    expect(
      of({ OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.1' }),
    ).toMatchObject({
      sampler: 'parentbased_traceidratio',
      ratio: 0.1,
      warnings: [],
    });
    expect(of({ OTEL_RESOURCE_ATTRIBUTES: 'a=b%20c, d=e' })?.resource).toEqual({ a: 'b c', d: 'e' });
    expect(of({ OTEL_TRACES_SAMPLER: 'sometimes' })?.warnings).toEqual([
      expect.stringContaining('sometimes'),
    ]);
    expect(of({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' })?.warnings).toEqual([expect.stringContaining('4318')]);
  });
});
