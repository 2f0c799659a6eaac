import { describe, expect, it, test } from 'vitest';
import { dialectOf, errorBody, errorEvents, readApiError } from '../../../src/protocol/index.ts';

test.each([
  ['/v1/chat/completions', 'openai'],
  ['/v1/messages', 'anthropic'],
  ['/v1/messages/count_tokens', 'anthropic'],
  ['/v1/messages?beta=true', 'anthropic'],
  ['/v2/endpoint/openai/v1/messages', 'anthropic'],
  ['/v1/messages-of-others', 'openai'],
  ['/v1/responses', 'responses'],
  ['/v1/responses/r1/cancel', 'responses'],
  ['/api/jobs/messages', 'openai'],
])('%s speaks %s', (path, dialect) => {
  expect(dialectOf(path)).toBe(dialect);
});

const error = { status: 503, message: 'every worker is busy', code: 'no_slot' };

describe('an error', () => {
  it('has the shape of OpenAI, with its type for the status', () => {
    const body = {
      error: {
        message: 'every worker is busy',
        type: 'service_unavailable_error',
        param: null,
        code: 'no_slot',
      },
    };
    expect(errorBody(error, 'openai', 'r')).toEqual(body);
    expect(errorBody(error, 'responses', 'r')).toEqual(body);
  });

  it.each([
    [400, 'invalid_request_error'],
    [401, 'authentication_error'],
    [403, 'permission_error'],
    [404, 'not_found_error'],
    [405, 'invalid_request_error'],
    [413, 'request_too_large'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [502, 'api_error'],
    [503, 'overloaded_error'],
    [504, 'timeout_error'],
  ])('of status %d is a %s of Anthropic', (status, type) => {
    expect(errorBody({ ...error, status }, 'anthropic', 'req-1')).toEqual({
      type: 'error',
      error: { type, message: 'every worker is busy' },
      request_id: 'req-1',
    });
  });
});

/** The name and the data of each event. */
function eventsOf(text: string): [string | null, unknown][] {
  expect(text.endsWith('\n\n')).toBe(true);
  return text
    .trimEnd()
    .split('\n\n')
    .map((event) => {
      const [, name = null, data = ''] = /^(?:event: (.*)\n)?data: (.*)$/.exec(event) ?? [];
      return [name, data === '[DONE]' ? data : JSON.parse(data)];
    });
}

describe('an error as the end of a stream', () => {
  const detailed = {
    message: 'every worker is busy',
    type: 'service_unavailable_error',
    param: null,
    code: 'no_slot',
    status: 503,
  };

  it('of chat or completions keeps type, code and status, and the end mark follows', () => {
    expect(eventsOf(errorEvents(error, 'openai'))).toEqual([
      [null, { error: detailed }],
      [null, '[DONE]'],
    ]);
  });

  it('of messages is the event that Anthropic’s clients raise, and nothing follows', () => {
    expect(eventsOf(errorEvents(error, 'anthropic', 'req-1'))).toEqual([
      [
        'error',
        {
          type: 'error',
          error: { type: 'overloaded_error', message: 'every worker is busy' },
          request_id: 'req-1',
        },
      ],
    ]);
  });

  it('of responses is their error event, which says the same as OpenAI’s servers do', () => {
    expect(eventsOf(errorEvents(error, 'responses'))).toEqual([
      [
        'error',
        {
          type: 'error',
          sequence_number: 0,
          code: 'no_slot',
          message: 'every worker is busy',
          param: null,
          error: detailed,
        },
      ],
    ]);
  });
});

test.each([
  ['{"error":{"message":"too long","type":"BadRequestError","param":"input","code":400}}', 'too long', 400],
  ['{"type":"error","error":{"type":"invalid_request_error","message":"no tokens"}}', 'no tokens', null],
  ['{"error":"Unauthorized"}', 'Unauthorized', null],
  ['{"detail":"Not Found"}', 'Not Found', null],
  ['{"detail":{"message":"busy","code":7}}', 'busy', 7],
  ['oh\n\nno', 'oh\n\nno', null],
  ['', 'the engine answered with the status 400 and said no more', null],
])('what an engine says is found in %j', (text, message, code) => {
  expect(readApiError(400, text)).toMatchObject({ status: 400, message, code });
  expect(errorEvents(readApiError(400, text), 'openai').split('\n\n')).toHaveLength(3);
});
