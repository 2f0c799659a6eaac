import type { Bug } from './planted-batch-bugs.ts';

/** Faults of one line in fair share and limits, each of which `npm run simulate:sharing` must catch. */
export const SHARING_BUGS: readonly Bug[] = [
  {
    name: 'sharing: a tenant that comes back has what it did not ask for',
    file: 'src/queue/sharing/fair-line.ts',
    line: 'share.counter = Math.max(share.counter, least, this.#floor);',
    becomes: '',
  },
  {
    name: 'sharing: what comes is not charged',
    file: 'src/queue/sharing/charge.ts',
    line: 'this.#line.charge(this.#share, tokens / this.#weight);',
    becomes: '',
  },
  {
    name: 'sharing: weights are not looked at',
    file: 'src/queue/sharing/charge.ts',
    line: 'tokens / this.#weight',
    becomes: 'tokens',
  },
  {
    name: 'sharing: the tenant that was served most goes next',
    file: 'src/queue/sharing/share-heap.ts',
    line: 'one.since < other.since : one.counter < other.counter',
    becomes: 'one.since < other.since : one.counter > other.counter',
  },
  {
    name: 'sharing: a worker is given one job of several that it has slots for',
    file: 'src/queue/dispatch/dispatch.ts',
    line: 'while (freeSlots(worker) > 0) {',
    becomes: 'if (freeSlots(worker) > 0) {',
  },
  {
    name: 'sharing: what ends keeps what it had reserved',
    file: 'src/queue/limits/account.ts',
    line: 'this.#running.delete(id);\n    this.#reserve(running, -1);',
    becomes: 'this.#running.delete(id);',
  },
  {
    name: 'sharing: stored jobs are let in whatever their limits',
    file: 'src/queue/state/stored-jobs.ts',
    line: 'if (this.#limits.letInStored(job, job.leased_at !== null) === null) return true;',
    becomes: 'this.#limits.letInStored(job, job.leased_at !== null);\n    return true;',
  },
  {
    name: 'sharing: requests reserve nothing',
    file: 'src/queue/limits/scope.ts',
    line: 'scope.tokens.sum(now) + scope.reserved > room',
    becomes: 'scope.tokens.sum(now) > room',
  },
  {
    name: 'sharing: what a request used is forgotten in a restart',
    file: 'src/queue/state/limit-accounts.ts',
    line: 'new Account(JSON.parse(limits), JSON.parse(state), now)',
    becomes: 'new Account(JSON.parse(limits), {}, now)',
  },
  {
    name: 'sharing: what was used of a budget is forgotten in a restart',
    file: 'src/queue/state/limit-accounts.ts',
    line: 'this.#readBudgets(account, { token_name });\n      this.#openTenant(tenant, account.limits);',
    becomes: 'this.#openTenant(tenant, account.limits);',
  },
  {
    name: 'sharing: a slot costs from the return of its worker on',
    file: 'src/queue/commands/register.ts',
    line: 'givenAt(attempt.account) ?? core.now()',
    becomes: 'core.now()',
  },
  {
    name: 'sharing: requests that workers go on with hold nothing',
    file: 'src/queue/commands/register.ts',
    line: 'resumeLimits(core, worker, job_id, attempt.account);',
    becomes: '',
  },
  {
    name: 'sharing: a job is passed over for warm prompts without an end',
    file: 'src/queue/dispatch/choose.ts',
    line: 'job.passed_over < MOST_PASSED_OVER && doesBetterElsewhere(job, worker, rivals)',
    becomes: 'doesBetterElsewhere(job, worker, rivals)',
  },
  {
    name: 'sharing: who is passed over is forgotten',
    file: 'src/queue/dispatch/choose.ts',
    line: 'for (const passed of line.slice(0, index)) passed.passed_over += 1;',
    becomes: '',
  },
  {
    name: 'sharing: requests are let in before workers have told what they go on with',
    file: 'src/queue/state/limit-accounts.ts',
    line: "if (opens_at !== null) return { limit: 'unknown', most: 0, models: null, tenant: null, opens_at };",
    becomes: '',
  },
  {
    name: 'sharing: what a worker that is cut off goes on with holds nothing',
    file: 'src/queue/attempts/lost-connection.ts',
    line: 'core.limits.lostWorker(worker.session.worker_id, graceEnds);',
    becomes: 'core.limits.heardWorker(worker.session.worker_id, new Map());',
  },
  {
    name: 'sharing: a worker that does not come back keeps limits shut',
    file: 'src/queue/timed.ts',
    line: '{ dueAt: ({ limits }) => limits.nextLost, run: ({ limits }) => limits.endLost() },',
    becomes: '',
  },
  {
    name: 'sharing: a stored job that waits for a slot holds what it may cost',
    file: 'src/queue/state/stored-jobs.ts',
    line: 'this.#limits.mustHold(job) || this.#limits.over(job) !== null ? HELD : null',
    becomes: 'this.#limits.mustHold(job) || this.#limits.letIn(job) !== null ? HELD : null',
  },
  {
    name: 'sharing: a stored job that is to be tried again holds what it may cost',
    file: 'src/queue/state/stored-jobs.ts',
    line: 'this.pending.entered({ ...job, run_after: change.run_after });\n    this.#limits.end(job.id);',
    becomes: 'this.pending.entered({ ...job, run_after: change.run_after });',
  },
  {
    name: 'sharing: what is held back is not looked at when there is room',
    file: 'src/queue/queue.ts',
    line: '} while (letInHeld(this.#core));',
    becomes: '} while (false);',
  },
  {
    name: 'sharing: a minute of requests is over a second early',
    file: 'src/queue/limits/sliding-window.ts',
    line: 'return (second + 1 + COUNTS_SECONDS) * 1000;',
    becomes: 'return (second - 1 + COUNTS_SECONDS) * 1000;',
  },
  {
    name: 'sharing: one more may run than the limit',
    file: 'src/queue/limits/scope.ts',
    line: 'scope.running >= running)',
    becomes: 'scope.running > running)',
  },
  {
    name: 'sharing: a request that was let in as its token was written is forgotten in a restart',
    file: 'src/queue/state/limit-accounts.ts',
    line: 'letInAt < holder.readAt ? null : letInAt',
    becomes: 'letInAt <= holder.readAt ? null : letInAt',
  },
  {
    name: 'sharing: tokens that come are counted at the end alone',
    file: 'src/queue/limits/account.ts',
    line: 'this.charge(running.names, ofTokens(fresh), now);',
    becomes: '',
  },
];
