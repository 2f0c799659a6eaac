import { describe, expect, it } from 'vitest';
import { readModelList } from '../../../src/engine/client/engine-facts.ts';

describe('the models of an engine', () => {
  it('are read with every field, in its order', () => {
    const data = [
      { id: 'b', root: '/models/b', max_model_len: 8, permission: [{ id: 'p' }] },
      { id: 'a', parent: 'b' },
    ];
    expect(readModelList(JSON.stringify({ object: 'list', data }))).toEqual({
      names: ['b', 'a'],
      cards: data,
    });
  });

  it('are told by name alone where an entry says too much', () => {
    const list = readModelList(JSON.stringify({ data: [{ id: 'a', more: 'x'.repeat(5000) }, { id: 'b' }] }));
    expect(list).toEqual({ names: ['a', 'b'], cards: [{ id: 'b' }] });
  });

  it.each(['', 'null', '[]', '{"data":7}', '{"data":[null,{"id":7},"x"]}'])('are none in %j', (text) => {
    expect(readModelList(text)).toEqual({ names: [], cards: [] });
  });
});
