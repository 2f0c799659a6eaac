import { describe, expect, it } from 'vitest';
import type { Moves, Stage } from '../../../src/protocol/index.ts';
import { MovableAnswer } from '../../../src/relay/movable.ts';

const MOVES: Moves = {
  plan: {
    path: '/v1/completions',
    rest: {},
    max_tokens: 9,
    max_tokens_field: 'max_tokens',
    min_tokens: 0,
    includes_usage: false,
  },
  identity: { id: 'a', object: 'text_completion', created: 1, model: 'tiny' },
  prompt_tokens: 2,
};

function told(offset: number, before: number, ids: number[], stage: Stage = 'running') {
  return { type: 'ids', stream: 1, offset, before, stage, ids } as const;
}

describe('what is known of an answer that may be moved', () => {
  it('is what its bytes say, wherever it is cut behind their ids', () => {
    const answer = new MovableAnswer(MOVES);
    expect(answer.cutAt(0)).toBeNull();
    answer.tell(told(10, 0, [1, 2, 5]), 10);
    expect(answer.cutAt(10)).toMatchObject({ ids: [1, 2, 5], promptTokens: 2, stage: 'running' });
    answer.tell(told(20, 3, [6], 'finished'), 20);
    expect(answer.cutAt(20)).toMatchObject({ ids: [1, 2, 5, 6], stage: 'finished' });
  });

  it('is nothing behind bytes whose ids have not come', () => {
    const answer = new MovableAnswer(MOVES);
    answer.tell(told(10, 0, [1, 2, 5]), 10);
    expect(answer.cutAt(15)).toBeNull();
  });

  it('is the same when it is told again, or of bytes that left a gap', () => {
    const answer = new MovableAnswer(MOVES);
    answer.tell(told(10, 0, [1, 2, 5]), 10);
    answer.tell(told(20, 3, [6]), 20);
    for (const again of [told(10, 0, [1, 2, 5]), told(20, 3, [6]), told(40, 5, [8])])
      expect(answer.tell(again, 20)).toBe(true);
    expect(answer.cutAt(20)).toMatchObject({ ids: [1, 2, 5, 6] });
  });

  it('is lost where ids are missing', () => {
    const answer = new MovableAnswer(MOVES);
    answer.tell(told(10, 0, [1, 2, 5]), 10);
    expect(answer.tell(told(30, 5, [8]), 30)).toBe(false);
  });
});
