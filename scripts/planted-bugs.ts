import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ADAPTER_BUGS } from './planted-adapter-bugs.ts';
import { BATCH_BUGS, type Bug } from './planted-batch-bugs.ts';
import { FLEET_BUGS } from './planted-fleet-bugs.ts';
import { MOVING_BUGS } from './planted-moving-bugs.ts';
import { RUNPOD_BUGS } from './planted-runpod-bugs.ts';
import { SHARING_BUGS } from './planted-sharing-bugs.ts';
import { SWAP_BUGS } from './planted-swap-bugs.ts';

/**
 * Plants one bug after the other in a copy of the sources and shows that the simulation finds it.
 * npm run planted-bugs -- [--seeds N] [--only TEXT]
 * Ends with 1 when one is not found, or cannot be planted because its line is gone.
 */

const BUGS: readonly Bug[] = [
  {
    name: 'a settlement counts whatever its fence and whoever sends it',
    file: 'src/queue/attempts/claim.ts',
    line: `if (job.fence_token !== fence_token || fence_token === 0) return 'stale';`,
    becomes: '',
    first_seed: 800,
  },
  {
    name: 'a claim ignores the worker’s id',
    file: 'src/queue/attempts/claim.ts',
    line: `if (job !== null && job.worker_id !== worker.session.worker_id) return 'stale';`,
    becomes: '',
  },
  {
    name: 'frames leave before their commit',
    file: 'test/simulation/queue-host.ts',
    line: 'this.#held.push(output);',
    becomes: 'output();',
  },
  {
    name: 'a reconnect does not renew the lease',
    file: 'src/queue/commands/register.ts',
    line: 'storeOf(core, job).extend(job, worker_id, core.now() + leaseSeconds * 1000);',
    becomes: '',
  },
  {
    name: 'the worker renews what is settled',
    file: 'src/worker/jobs/jobs.ts',
    line: 'isHolding: () => this.#slots.running + this.#outbox.size > 0,',
    becomes: 'isHolding: () => true,',
  },
  {
    name: 'a row that was released is known as it was',
    file: 'src/queue/state/stored-jobs.ts',
    line: "if (job.state === 'leased') this.pending.entered(job);\n    this.#rows.forget(job.id);",
    becomes: "if (job.state === 'leased') this.pending.entered(job);",
  },
  {
    name: 'a job that is settled in the command that stored it is looked for in the tables alone',
    file: 'src/queue/state/job-rows.ts',
    line: 'if (this.#unwritten.size > 0) this.flush();',
    becomes: '',
  },
  {
    name: 'an attempt is counted twice',
    file: 'src/queue/attempts/retry.ts',
    line: 'const attempts = earlier.length + 1;',
    becomes: 'const attempts = earlier.length + 2;',
  },
  {
    name: 'a release is charged',
    file: 'src/queue/attempts/retry.ts',
    line: 'release(job, { attempts, attempt_errors, run_after });',
    becomes: 'release(job, { attempts: attempts + 1, attempt_errors, run_after });',
  },
  {
    name: 'the relay takes repeated bytes again',
    file: 'src/relay/caller-stream.ts',
    line: 'const fresh = data.subarray(this.#received - offset);',
    becomes: 'const fresh = data;',
  },
  {
    name: 'a broken answer ends as if whole',
    file: 'src/relay/caller-stream.ts',
    line: '    sink.abort(reason, this.mayAddEvent);',
    becomes: '    sink.end();',
  },
  {
    name: 'results are not sent again after a reconnect',
    file: 'src/worker/jobs/jobs.ts',
    line: 'this.#outbox.connected();',
    becomes: '',
  },
  {
    name: 'a restart hands out the same fences again',
    file: 'src/queue/store/jobs-table.ts',
    line: 'SET value = CAST(value AS INTEGER) + ? RETURNING',
    becomes: 'SET value = CAST(value AS INTEGER) + 0 * ? RETURNING',
  },
  {
    name: 'a cancelled job is not revoked',
    file: 'src/queue/attempts/end.ts',
    line: 'revoke(core, worker_id, job.id, reason);',
    becomes: '',
  },
  {
    name: 'the spool is not read at the start',
    file: 'src/worker/results/outbox.ts',
    line: 'this.#takeOver(found.value);\n        next =',
    becomes: 'next =',
  },
  {
    name: 'sent is taken for acknowledged',
    file: 'src/worker/results/outbox.ts',
    line: 'if (isSent && !peer.acknowledges)',
    becomes: 'if (isSent)',
  },
  {
    name: 'a request tried again keeps its old slot',
    file: 'src/queue/commands/settle.ts',
    line: 'core.workers.freeSlot(worker.session.worker_id, job_id, fence_token);',
    becomes: '',
  },
  {
    name: 'the end of a job forgets to free its slot',
    file: 'src/queue/attempts/end.ts',
    line: 'core.workers.freeSlot(job.worker_id, job.id, job.fence_token);',
    becomes: '',
  },
  {
    name: 'a dispatch pass does not look at slots that were freed',
    file: 'src/queue/state/workers.ts',
    line: 'worker.predicted.delete(jobId);\n    this.#ready.worker(worker);',
    becomes: 'worker.predicted.delete(jobId);',
  },
  {
    name: 'a base worker back on a new connection is taken to have its calls still',
    file: 'src/queue/commands/register.ts',
    line: "if (job.mode === 'waiting' && isNewConnection) {",
    becomes: 'if (false) {',
  },
  {
    name: 'a base worker that lost a lease waits to be heard',
    file: 'src/queue/attempts/half-open.ts',
    line: "else if (unheardMs >= limits.BASE_LEASE_SECONDS * 1000) close(core, worker, 'a whole lease');",
    becomes: 'else worker.unresponsive = true;',
  },
  {
    name: 'leases run on while the queue stands still',
    file: 'src/queue/clock/standstill.ts',
    line: 'beginLeasesAnew(this.#core, 0);',
    becomes: '',
  },
  {
    name: 'a lease is judged at the first look',
    file: 'src/queue/commands/expire.ts',
    line: 'if (job.lease_orphaned & OVERDUE) expireLease(core, job);',
    becomes: 'if (job) expireLease(core, job);',
  },
  {
    name: 'a clock that was set back goes unnoticed',
    file: 'src/queue/clock/clock.ts',
    line: 'return standsStill(now, this.#core.machineTime());',
    becomes: 'return false;',
  },
  {
    name: 'what is stored does not go back with the clock',
    file: 'src/queue/clock/clock.ts',
    line: 'moveTimesBack(core.sql, backMs, now);',
    becomes: '',
  },
  {
    name: 'a base worker that names a job loses it all the same',
    file: 'src/queue/commands/renew.ts',
    line: `  extend(core, worker, job);
  let { progress = null`,
    becomes: `  let { progress = null`,
  },
  {
    name: 'settlements are numbered anew after a restart',
    file: 'src/queue/store/settlements-table.ts',
    line: 'Math.max(newest?.n ?? 0, forgottenSettlement(sql), ',
    becomes: 'Math.max(forgottenSettlement(sql), ',
  },
  {
    name: 'a look at settlements passes over all but the first',
    file: 'src/queue/commands/settlements.ts',
    line: 'settlements: told, up_to: upTo,',
    becomes: 'settlements: told.slice(0, 1), up_to: upTo,',
  },
  {
    name: 'a replay buffer takes repeated bytes again',
    file: 'src/relay/replay-buffer.ts',
    line: 'const fresh = data.subarray(this.#received - offset);',
    becomes: 'const fresh = data;',
  },
  {
    name: 'a broken replay buffer ends as if whole',
    file: 'src/relay/replay-buffer.ts',
    line: 'else reader.sink.abort(brokenBy, reader.isBetween && this.#isEventStream);',
    becomes: 'else reader.sink.end();',
  },
  {
    name: 'counts of stored jobs wait for a later commit',
    file: 'src/queue/state/write-behind.ts',
    line: 'if (this.#hasStored || this.ports.now() >= goesAlongAt) this.write();',
    becomes: 'if (this.ports.now() >= goesAlongAt) this.write();',
  },
  {
    name: 'a request is acknowledged before its usage is written',
    file: 'src/queue/state/usage-book.ts',
    line: 'if (this.#fences.has(fence)) this.#effects.push(effect);',
    becomes: 'if (false) this.#effects.push(effect);',
  },
  {
    name: 'which attempts were counted is not written',
    file: 'src/queue/state/usage-book.ts',
    line: 'if (this.#fences.size > 0) insertCounted(sql, [...this.#fences]);',
    becomes: '',
  },
  {
    name: 'a settlement from before a restart is counted without a look',
    file: 'src/queue/attempts/usage.ts',
    line: 'if (core.usage.isCounted(fence_token)) return;',
    becomes: '',
  },
  {
    name: 'a cancellation that overtakes its request is forgotten',
    file: 'src/queue/commands/request.ts',
    line: 'if (core.gone.has(asked.job_id)) return answer(CANCELLED);',
    becomes: '',
    first_seed: 7300,
  },
  ...ADAPTER_BUGS,
  ...SWAP_BUGS,
  ...BATCH_BUGS,
  ...MOVING_BUGS,
];

/** One for each world. */
const SCRIPTS = [
  'scripts/simulate.ts',
  'scripts/simulate-fleet.ts',
  'scripts/simulate-runpod.ts',
  'scripts/simulate-sharing.ts',
] as const;

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '500' }, only: { type: 'string', default: '' } },
});
const root = fileURLToPath(new URL('..', import.meta.url));
const folder = await mkdtemp(join(tmpdir(), 'planted-bugs-'));
try {
  const simulations = ['', 'fleet-', 'runpod-', 'sharing-'].map((of) => `test/${of}simulation`);
  const worlds = [...simulations, 'test/support'];
  for (const part of ['src', ...worlds, 'package.json', 'scripts/seeds.ts', ...SCRIPTS]) {
    await cp(join(root, part), join(folder, part), { recursive: true });
  }
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir');
  const rows: string[][] = [];
  for (const bug of [...BUGS, ...FLEET_BUGS, ...RUNPOD_BUGS, ...SHARING_BUGS].filter(({ name }) =>
    name.includes(values.only),
  )) {
    const row = await plant(bug);
    console.log(row.join(' | '));
    rows.push(row);
  }
  console.log(`\n| bug | found | seeds | the promise that was broken |\n| --- | --- | --- | --- |`);
  for (const row of rows) console.log(`| ${row.join(' | ')} |`);
  process.exitCode = rows.every(([, found]) => found === 'yes') ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** One row of the table; the copy is as before when it is done. */
async function plant(bug: Bug): Promise<string[]> {
  const path = join(folder, bug.file);
  const text = await readFile(path, 'utf8');
  const places = text.split(bug.line).length - 1;
  if (places !== 1) return [bug.name, 'NOT PLANTED', '', `its line is ${places} times in ${bug.file}`];
  await writeFile(
    path,
    text.replace(bug.line, () => bug.becomes),
  );
  try {
    const { seeds, promise } = await simulate(bug);
    return [bug.name, promise === null ? 'NO' : 'yes', String(seeds), promise ?? ''];
  } finally {
    await writeFile(path, text);
  }
}

async function simulate(bug: Bug): Promise<{ seeds: number; promise: string | null }> {
  const seeds = ['--seeds', values.seeds, '--first-seed', String(bug.first_seed ?? 1)];
  const [any, fleet, runpod, sharing] = SCRIPTS;
  const scripts = [
    [FLEET_BUGS, fleet],
    [RUNPOD_BUGS, runpod],
    [SHARING_BUGS, sharing],
  ] as const;
  const script = scripts.find(([bugs]) => bugs.includes(bug))?.[1] ?? any;
  const child = spawn(process.execPath, [script, '--json', ...seeds], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  for await (const piece of child.stdout) printed += String(piece);
  return JSON.parse(printed.trim().split('\n').at(-1) ?? '');
}
