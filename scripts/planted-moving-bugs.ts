import type { Bug } from './planted-batch-bugs.ts';

/** Faults of answers that move (docs/moving.md). */
export const MOVING_BUGS: readonly Bug[] = [
  {
    name: 'moving: a moved answer goes on under the name of its continuation',
    file: 'src/moving/stitch.ts',
    line: '{ ...rest, ...this.#cut.identity, choices, ...usage }',
    becomes: '{ ...rest, choices, ...usage }',
  },
  {
    name: 'moving: the usage of a moved answer is that of its last part',
    file: 'src/moving/stitch.ts',
    line: '{ usage: wholeUsageOf(data.usage, this.#cut.promptTokens) }',
    becomes: '{ usage: data.usage }',
  },
  {
    name: 'moving: the role of a moved answer is told twice',
    file: 'src/moving/stitch.ts',
    line: 'return isOpening ? null : ',
    becomes: 'return isOpening ? choice : ',
  },
  {
    name: 'moving: a moved answer may be as long again',
    file: 'src/moving/continuation.ts',
    line: 'plan.max_tokens - given',
    becomes: 'plan.max_tokens',
  },
  {
    name: 'moving: a second move takes the first part of an answer for its prompt',
    file: 'src/moving/continuation.ts',
    line: 'plan.first_prompt ?? cut.promptTokens',
    becomes: 'cut.promptTokens',
  },
  {
    name: 'moving: what is generated already is asked for again',
    file: 'src/moving/continuation.ts',
    line: "return stage !== 'running';",
    becomes: 'return false;',
    first_seed: 1600,
  },
  {
    name: 'moving: a worker counts the last part of a moved answer alone',
    file: 'src/worker/run/continued.ts',
    line: 'if (usage === null || !continues || from === null) return usage;',
    becomes: 'return usage;',
  },
  {
    name: 'moving: what a caller was given of a moved answer is wasted too',
    file: 'src/queue/projections/usage-book.ts',
    line: 'input + output + before - kept',
    becomes: 'input + output + before',
  },
  {
    name: 'moving: a caller that hangs up during a move is not heard',
    file: 'src/moving/mover.ts',
    line: 'this.#moves.get(id)?.hangUp.happen();',
    becomes: '',
  },
  {
    name: 'moving: an engine that tells no ids is taken to go on from those it was given',
    file: 'src/worker/run/send-request.ts',
    line: 'if (request.continues) return sendContinuation(attempt, request, ask, body);',
    becomes: '',
    first_seed: 3_000,
  },
  {
    name: 'moving: a stop string that begins before a cut is not seen',
    file: 'src/worker/answers/stop-hold.ts',
    line: '({ begun }) => begun === 0',
    becomes: '() => true',
  },
  {
    name: 'moving: a stop string is shown to who did not ask for it',
    file: 'src/worker/answers/stop-hold.ts',
    line: 'if (stop && !this.#isShown) this.#takeOut(stop);',
    becomes: '',
  },
  {
    name: 'moving: a stored answer that goes on elsewhere lacks what was made before',
    file: 'src/worker/answers/assembled-answer.ts',
    line: 'this.#text = text;',
    becomes: '',
  },
  {
    name: 'moving: a stored answer tells the usage of its last part',
    file: 'src/worker/answers/assembled-answer.ts',
    line: 'this.#before === null ? usage : wholeUsageOf(usage, this.#promptTokens)',
    becomes: 'usage',
  },
  {
    name: 'moving: a part of a stored answer that a renewal tells is told with those before',
    file: 'src/worker/answers/assembled-answer.ts',
    line: 'text: this.#text.slice(characters),',
    becomes: 'text: this.#text,',
  },
  {
    name: 'moving: a stored answer is cut within its reasoning',
    file: 'src/worker/answers/answer-log.ts',
    line: 'return this.plan !== null && this.mayBeCut && this.isOpen;',
    becomes: 'return this.plan !== null && this.isOpen;',
  },
  {
    name: 'moving: what is kept of a stored job is wasted too',
    file: 'src/queue/projections/usage.ts',
    line: 'const wasted = Math.max(0, tokensOf(usage) - this.#book.keptOf(fence));',
    becomes: 'const wasted = tokensOf(usage);',
  },
  {
    name: 'moving: a moved answer in tokens is asked for without its limit',
    file: 'src/moving/continuation.ts',
    line: 'token_ids: ids, sampling_params: { ...sampling, ...left } };',
    becomes: 'token_ids: ids, sampling_params: sampling };',
    first_seed: 90,
  },
  {
    name: 'moving: an answer is cut within its reasoning',
    file: 'src/worker/answers/token-ids.ts',
    line: 'mayBeCut: !this.#isReasoning,',
    becomes: 'mayBeCut: true,',
    first_seed: 60,
  },
];
