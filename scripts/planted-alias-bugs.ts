import type { Bug } from './planted-batch-bugs.ts';

/** Faults of names that stand for models (docs/aliases.md). */
export const ALIAS_BUGS: readonly Bug[] = [
  {
    name: 'alias: a request is sent with the alias in its body',
    file: 'src/queue/commands/request.ts',
    line: 'return step === null ? bytes : withTarget(job_type, bytes, step.alias, step.model);',
    becomes: 'return bytes;',
  },
  {
    name: 'alias: a stored job is sent with the alias in its body',
    file: 'src/queue/dispatch/send.ts',
    line: 'payload: textWithTarget(job.job_type, payload, alias.name, job.model)',
    becomes: 'payload',
  },
  {
    name: 'alias: a job that stays in its pool keeps a model that its worker does not serve',
    file: 'src/queue/dispatch/dispatch.ts',
    line: 'renamed(core, worker, job)',
    becomes: 'false',
  },
  {
    name: 'alias: a request names one model in its body and waits for another',
    file: 'src/queue/commands/request.ts',
    line: 'model: isNamed(model) ? model : configId,',
    becomes: 'model: configId,',
  },
];
