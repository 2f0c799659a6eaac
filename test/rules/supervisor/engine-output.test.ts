import { describe, expect, it } from 'vitest';
import { describeEngine } from '../../../src/engine/kinds/index.ts';
import { EngineLog, LineSplitter } from '../../../src/supervisor/engine-run.ts';

describe("the engine's output", () => {
  it('is split into lines wherever the chunks break', () => {
    const splitter = new LineSplitter();
    expect(splitter.push('one\ntw').lines).toEqual(['one']);
    expect(splitter.push('o\r\n\nthree').lines).toEqual(['two']);
    expect(splitter.end()).toEqual(['three']);
    expect(splitter.end()).toEqual([]);
  });

  it('shows a progress bar once, in its last state', () => {
    const splitter = new LineSplitter();
    expect(splitter.push('shards: 0%')).toEqual({ lines: [], progress: null });
    expect(splitter.push('\rshards: 50%')).toEqual({ lines: [], progress: 'shards: 50%' });
    expect(splitter.push('\rshards: 100%\nnext\n')).toEqual({
      lines: ['shards: 100%', 'next'],
      progress: null,
    });
  });

  it('does not keep a line without an end for ever', () => {
    const splitter = new LineSplitter();
    for (let i = 0; i < 100; i++) splitter.push('x'.repeat(10_000));
    expect(splitter.end()[0]?.length).toBe(65_536);
  });

  it('tells each phase once', () => {
    const log = new EngineLog(describeEngine('vllm'));
    const line = 'INFO 11-21 09:08:51 [x.py:1] Starting to load model ./tiny';
    expect(log.newPhase(line)).toEqual({ phase: 'loading', detail: 'Starting to load model ./tiny' });
    expect(log.newPhase(line)).toBeNull();
    expect(log.newPhase('something else')).toBeNull();
  });

  it('keeps the last 200 lines', () => {
    const log = new EngineLog(describeEngine('vllm'));
    for (let i = 0; i < 300; i++) log.keep(`line ${i}`);
    expect(log.lastLines).toHaveLength(200);
    expect(log.lastLines[0]).toBe('line 100');
  });
});
