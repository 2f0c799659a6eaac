import { describe, expect, it } from 'vitest';
import { engineErrorText, parseEngineError } from '../../../src/protocol/index.ts';

describe('the text of an engine’s error', () => {
  it('gives back the status and the message that it was made of, over several lines', () => {
    const text = engineErrorText(404, 'no such model\n(see the list)');
    expect(text).toBe('Error code: 404 - no such model\n(see the list)');
    expect(parseEngineError(text)).toEqual({ status: 404, message: 'no such model\n(see the list)' });
  });

  it('says so where the engine gave no message', () => {
    expect(engineErrorText(500, null)).toBe('Error code: 500 - no message');
  });

  it('is read without a message', () => {
    expect(parseEngineError('Error code: 503')).toEqual({ status: 503, message: 'Error code: 503' });
  });

  it.each(['the engine died', 'Error code: 200 - fine', 'Error code: 5000 - what', 'an Error code: 500 - x'])(
    'is not read from “%s”',
    (text) => expect(parseEngineError(text)).toBeNull(),
  );
});
