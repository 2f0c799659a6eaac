import type { Bug } from './planted-batch-bugs.ts';

/** Faults of prompts that another engine prefills (docs/prefill.md). */
export const PREFILL_BUGS: readonly Bug[] = [
  {
    name: 'prefill: a prefill that fails fails its request',
    file: 'src/worker/prefill/prefills.ts',
    line: "return this.#rest(isGone ? 'unreachable' : 'slow', (error as Error).message);",
    becomes: 'throw error;',
  },
  {
    name: 'prefill: an answer whose blocks are gone is passed on with its error',
    file: 'src/worker/prefill/prefills.ts',
    line: "if (seen === 'token') return",
    becomes: 'if (seen) return',
  },
  {
    name: 'prefill: blocks of another prompt are read',
    file: 'src/worker/prefill/request.ts',
    line: 'return held === promptIds.length ? { params, promptIds } : null;',
    becomes: 'return { params, promptIds };',
  },
  {
    name: 'prefill: a request that runs whole after all names the blocks again',
    file: 'src/worker/prefill/prefills.ts',
    line: 'this.#results[answer] += 1;\n    return await engine.request(call);',
    becomes:
      "return await engine.request(typeof prefill === 'string' ? call : decodeCall(asked, prefill, call.signal));",
  },
];
