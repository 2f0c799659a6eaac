import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { splitShellWords } from '../../../src/engine/command/configuration.ts';

describe('words of a shell', () => {
  it.each([
    ['', []],
    ['  a\tb\nc ', ['a', 'b', 'c']],
    [
      '--tensor-parallel-size 2 --gpu-memory-utilization 0.9',
      ['--tensor-parallel-size', '2', '--gpu-memory-utilization', '0.9'],
    ],
    [`--speculative-config '{"method": "ngram"}'`, ['--speculative-config', '{"method": "ngram"}']],
    [String.raw`--chat-template "a \"quoted\" \$x \n"`, ['--chat-template', String.raw`a "quoted" $x \n`]],
    [String.raw`one\ word 'it'\''s'`, ['one word', "it's"]],
    [`--empty '' ""`, ['--empty', '', '']],
    ['join"ed "\'words\'', ['joined words']],
    ['a\\\nb \\\n', ['ab']],
    ['two\nlines', ['two', 'lines']],
  ])('splits %j', (text, words) => {
    expect(splitShellWords(text)).toEqual(words);
  });

  it.each(['"open', "it's", 'end\\'])('refuses %j', (text) => {
    expect(() => splitShellWords(text)).toThrow(SyntaxError);
  });

  it('agrees with /bin/sh on whatever sh accepts', () => {
    const pieces = fc.constantFrom('a', 'b', ' ', '"', "'", '\\', '\t', '{', ':', '=');
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
        const text = parts.join('');
        const words = ours(text);
        if (words !== null) expect(words).toEqual(shell(text));
      }),
      { numRuns: 60 },
    );
  });
});

function ours(text: string): string[] | null {
  try {
    return splitShellWords(text);
  } catch {
    return null;
  }
}

function shell(text: string): string[] {
  const script = `set -f; set -- ${text}\nfor word; do printf '%s\\0' "$word"; done`;
  const output = execFileSync('/bin/sh', ['-c', script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  return output.split('\0').slice(0, -1);
}
