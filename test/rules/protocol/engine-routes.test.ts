import { describe, expect, it } from 'vitest';
import {
  EngineRequest,
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
    ['POST', '/v1/responses/resp_1/cancel'],
    ['GET', '/v1/responses/resp_1?stream=true'],
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
