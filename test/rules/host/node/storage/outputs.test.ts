import { beforeEach, describe, expect, it } from 'vitest';
import { Outputs } from '../../../../../src/host/node/storage/outputs.ts';

let outputs: Outputs;
let left: string[];
/** Ends the sync on its way. */
let syncs: ((error: Error | null) => void)[];

beforeEach(() => {
  left = [];
  syncs = [];
  outputs = new Outputs({
    sync: (done) => syncs.push(done),
    afterSync: () => left.push('after sync'),
    syncFailed: (error) => left.push(`failed: ${error.message}`),
    threw: (error) => left.push(`threw: ${(error as Error).message}`),
  });
});

const tell = (text: string) =>
  outputs.whenSynced({ run: () => left.push(text), lost: ({ message }) => left.push(`${text} ${message}`) });

describe('outputs of an object', () => {
  it('leave at once while nothing is written', () => {
    tell('a');
    expect(left).toEqual(['a']);
  });

  it('wait for the commit and the sync of what was written before them', () => {
    outputs.begun();
    tell('a');
    outputs.committed();
    tell('b');
    expect(left).toEqual([]);
    syncs.shift()!(null);
    expect(left).toEqual(['a', 'b', 'after sync']);
    tell('c');
    expect(left.at(-1)).toBe('c');
  });

  it('wait for the next sync if their group was committed while one was on its way', () => {
    outputs.begun();
    tell('a');
    outputs.committed();
    outputs.begun();
    tell('b');
    outputs.committed();
    outputs.begun();
    tell('c');
    expect(syncs).toHaveLength(1);
    syncs.shift()!(null);
    expect(left).toEqual(['a', 'after sync']);
    syncs.shift()!(null);
    expect(left).toEqual(['a', 'after sync', 'b', 'after sync']);
    expect(syncs).toEqual([]);
    outputs.committed();
    syncs.shift()!(null);
    expect(left).toContain('c');
  });

  it('keep their order when an output brings another', () => {
    outputs.begun();
    outputs.whenSynced({
      run: () => {
        left.push('a');
        tell('c');
      },
    });
    tell('b');
    outputs.committed();
    syncs.shift()!(null);
    expect(left).toEqual(['a', 'b', 'c', 'after sync']);
  });

  it('are lost with what is undone, and earlier ones are not', () => {
    outputs.begun();
    tell('a');
    outputs.committed();
    outputs.begun();
    tell('b');
    outputs.undone(new Error('is undone'));
    tell('c');
    syncs.shift()!(null);
    expect(left).toEqual(['b is undone', 'a', 'c', 'after sync']);
  });

  it('do not keep others back when they throw', () => {
    outputs.begun();
    outputs.whenSynced({
      run: () => {
        throw new Error('x');
      },
    });
    tell('a');
    outputs.committed();
    syncs.shift()!(null);
    expect(left).toEqual(['threw: x', 'a', 'after sync']);
  });

  it('never leave once a sync has failed', () => {
    outputs.begun();
    tell('a');
    outputs.committed();
    syncs.shift()!(new Error('EIO'));
    tell('b');
    outputs.begun();
    outputs.committed();
    expect(left).toEqual(['failed: EIO']);
    expect(syncs).toEqual([]);
  });
});
