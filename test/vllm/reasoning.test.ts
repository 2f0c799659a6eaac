import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { ensureVllm } from '../../scripts/vllm/setup.ts';

/** Cuts of one answer: those that went on exactly, and those that did not. */
type Cuts = [exact: number, not: number];

interface Line {
  parser: string;
  way: string;
  /** What the parser makes of the whole answer. */
  reasons?: boolean;
  answers?: boolean;
  /** It makes the same of the answer in one piece. */
  whole?: boolean;
  /** By what its caller had been given last. */
  nothing?: Cuts;
  reasoning?: Cuts;
  content?: Cuts;
}

/** The real parsers, without a server: a model of random weights would not reason. */
describe('an answer with reasoning', () => {
  let lines: Line[];

  beforeAll(async () => {
    const vllm = await ensureVllm();
    const script = join(import.meta.dirname, 'reasoning_parsers.py');
    const env = { ...process.env, ...vllm.env };
    const { stdout } = await promisify(execFile)(vllm.python, [script, vllm.modelDir], { env });
    const printed = stdout.split('\n').filter((line) => line.startsWith('{'));
    lines = printed.map((line) => JSON.parse(line) as Line);
  });

  const reasoning = () => lines.filter(({ reasons, answers }) => reasons && answers);

  it('goes on exactly behind the beginning of its content, whatever its parser', () => {
    const parsers = new Set(reasoning().map(({ parser }) => parser));
    expect(parsers.size).toBeGreaterThan(20);
    for (const { parser, way, content } of reasoning()) {
      expect([parser, way, content![1]]).toEqual([parser, way, 0]);
      expect(content![0]).toBeGreaterThan(10);
    }
  });

  it('is the same in one piece and put together, whatever its parser', () => {
    for (const { parser, way, whole } of reasoning())
      expect([parser, way, whole]).toEqual([parser, way, true]);
  });

  it('does not before that, with many a parser', () => {
    const wrong = reasoning().filter(({ reasoning }) => reasoning![1] > 0);
    expect(wrong.length).toBeGreaterThan(10);
  });
});
