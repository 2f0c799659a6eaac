import { describe, expect, it } from 'vitest';
import {
  EngineRequest,
  inferenceRoutes,
  isInferenceRoute,
  isPlainPath,
  JobSubmission,
  parseValue,
} from '../../../src/protocol/index.ts';

describe('the routes of an engine that jobs may ask for', () => {
  it.each([
    ['POST', '/v1/chat/completions'],
    ['POST', '/v1/chat/completions/'],
    ['POST', '/v1/chat/completions?beta=true'],
    ['GET', '/v1/models'],
    ['GET', '/v1/models/org%20model'],
    ['POST', '/tokenize'],
    ['POST', '/inference/v1/generate'],
  ])('include %s %s', (method, path) => {
    expect(isInferenceRoute(method, path)).toBe(true);
  });

  it.each([
    ['POST', '/sleep'],
    ['POST', '/wake_up'],
    ['POST', '/collective_rpc'],
    ['POST', '/pause'],
    ['POST', '/v1/load_lora_adapter'],
    ['POST', '/v1/unload_lora_adapter'],
    ['POST', '/inference/v1/abort_requests'],
    ['POST', '/reset_prefix_cache'],
    ['GET', '/metrics'],
    ['GET', '/server_info'],
    ['GET', '/v1/chat/completions'],
    ['DELETE', '/v1/models/m'],
    ['PATCH', '/v1/completions'],
    ['POST', '/v1/chat/completions/../../../sleep'],
    ['GET', '/v1/models/..'],
    ['GET', '/v1/models/%2e%2E'],
    ['GET', '/v1/models/..%2f..%2fmetrics'],
    ['POST', '/v1/completions\\..\\sleep'],
    ['POST', '/v1//completions'],
    ['POST', '//v1/completions'],
    ['POST', '/v1/completions#/sleep'],
    ['POST', 'http://other/v1/completions'],
    ['constructor', '/v1/completions'],
  ])('leave out %s %s', (method, path) => {
    expect(isInferenceRoute(method, path)).toBe(false);
  });
});

/** Every route of vLLM 0.32.0 that is no inference, from its source. */
const ADMINISTRATION = [
  '/abort_requests',
  '/collective_rpc',
  '/docs',
  '/fault_tolerance/apply',
  '/fault_tolerance/status',
  '/finish_weight_update',
  '/get_world_size',
  '/health',
  '/inference/v1/abort_requests',
  '/init_weight_transfer_engine',
  '/is_paused',
  '/is_scaling_elastic_ep',
  '/is_sleeping',
  '/kv_event_sources',
  '/load',
  '/metrics',
  '/openapi.json',
  '/pause',
  '/release_kv_cache_memory',
  '/reset_encoder_cache',
  '/reset_mm_cache',
  '/reset_prefix_cache',
  '/resume',
  '/scale_elastic_ep',
  '/server_info',
  '/shutdown_weight_transfer_engine',
  '/sleep',
  '/start_draft_weight_update',
  '/start_profile',
  '/start_weight_update',
  '/stop_profile',
  '/tokenizer_info',
  '/update_weight_version',
  '/update_weights',
  '/v1/load_lora_adapter',
  '/v1/unload_lora_adapter',
  '/wake_up',
  '/weight_checker',
  '/weight_info',
];

describe('routes that administer an engine', () => {
  it.each(ADMINISTRATION)('do not include %s with any method', (path) => {
    expect(inferenceRoutes().methodsOf(path)).toEqual([]);
    expect(inferenceRoutes().methodsOf(`${path}/`)).toEqual([]);
  });
});

describe('a list of routes', () => {
  it('can be longer, shorter, or another', () => {
    const changed = inferenceRoutes('+POST /v1/ocr, -POST /invocations,+GET /v1/ocr/{id}');
    expect(changed.methodsOf('/v1/ocr')).toEqual(['POST']);
    expect(changed.has('GET', '/v1/ocr/7?page=1')).toBe(true);
    expect(changed.methodsOf('/invocations')).toEqual([]);
    expect(changed.has('POST', '/v1/completions')).toBe(true);
    const whole = inferenceRoutes('POST /v1/a.b, GET /version');
    expect([whole.has('POST', '/v1/a.b'), whole.has('POST', '/v1/axb')]).toEqual([true, false]);
    expect(whole.methodsOf('/v1/completions')).toEqual([]);
  });

  it.each([
    ['/v1/ocr', /expected routes such as/],
    ['+PATCH /v1/ocr', /expected routes such as/],
    ['+POST /../sleep', /expected routes such as/],
    ['POST /a, -POST /v1/completions', /either every entry has a sign, or none/],
    ['-POST /nothing', /none of the routes/],
  ])('that is %j is refused', (text, problem) => {
    expect(() => inferenceRoutes(text)).toThrow(problem);
  });
});

describe('a plain path', () => {
  it.each(['/v1/a b', '/v1/a\r\nX: y', '/v1/ä', '/a\u0000', '/../x', '/a/./b', 'v1', ''])(
    'is not %j',
    (path) => {
      expect(isPlainPath(path)).toBe(false);
    },
  );

  it('may have anything visible in its query', () => {
    expect(isPlainPath('/v1/models?next=/../a//b&c=%2e')).toBe(true);
  });
});

describe('an engine request', () => {
  const problem = (fields: object) => {
    const parsed = parseValue(EngineRequest, { path: '/v1/completions', ...fields });
    return parsed.ok ? null : parsed.message;
  };

  it.each(['application/json', 'multipart/form-data; boundary=x y', 'audio/x-wav;rate=16000'])(
    'takes the content type %s',
    (content_type) => expect(problem({ content_type })).toBeNull(),
  );

  it.each(['', 'json', 'application/json\r\nX-Key: 1', 'text /plain', 'text/plain\n', 'text/plain; ä=1'])(
    'refuses the content type %j',
    (content_type) => expect(problem({ content_type })).toMatch(/^content_type: must be a content type/),
  );

  it('refuses a path that is not plain, and methods that engines do not have', () => {
    expect(problem({ path: '/v1/a b' })).toMatch(/^path: must be a plain path/);
    expect(problem({ path: '/../sleep' })).toMatch(/^path: must be a plain path/);
    expect(problem({ method: 'GET /sleep HTTP/1.1' })).toMatch(/^method: /);
  });
});

describe('the id of a job', () => {
  it.each(['.', '..'])('is not %j, which addresses cannot hold', (id) => {
    const parsed = parseValue(JobSubmission, { id, job_type: 'chat_completion', payload: {} });
    expect(parsed).toMatchObject({ ok: false, message: expect.stringMatching(/^id: must not be/) });
  });

  it.each(['...', '.a', 'a..b'])('may be %j', (id) => {
    const parsed = parseValue(JobSubmission, { id, job_type: 'chat_completion', payload: {} });
    expect(parsed.ok).toBe(true);
  });
});
