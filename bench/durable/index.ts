import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { processorMs } from '../machine.ts';
import { sum } from '../statistics.ts';
import type { DurablePlan, SubmitterReport } from './plan.ts';

/** A program beside this file: the queue's, or one of those that it is compared with. */
export type Side = 'ours' | 'bullmq' | 'jetstream';

/** The figures of one run. */
export interface DurableRun {
  jobsPerSecond: number;
  /** Processor time a job, in µs: of the server alone, and of server, submitter and workers together. */
  server: number;
  all: number;
}

const WORKERS = 2;

/** One submitter and two workers of a side, each a process of its own, as their users run them. */
export async function runDurable(side: Side, plan: DurablePlan, serverPid: number): Promise<DurableRun> {
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => startProgram(side, 'work', plan)));
  try {
    const pids = workers.map(({ child }) => child.pid!);
    const before = { server: processorMs(serverPid), workers: sum(pids.map(processorMs)) };
    const submitter = await startProgram(side, 'submit', plan);
    const report = JSON.parse(submitter.firstLine) as SubmitterReport;
    const server = processorMs(serverPid) - before.server;
    const others = sum(pids.map(processorMs)) - before.workers + report.processorMs;
    const perJob = (ms: number) => (ms * 1000) / plan.jobs;
    return { jobsPerSecond: report.jobsPerSecond, server: perJob(server), all: perJob(server + others) };
  } finally {
    await Promise.all(workers.map(({ child }) => end(child)));
  }
}

/** @returns once it has printed its first line: a worker that it is ready, a submitter what it measured */
async function startProgram(side: Side, which: 'work' | 'submit', plan: DurablePlan) {
  const file = fileURLToPath(new URL(`./${side}.ts`, import.meta.url));
  const child = spawn(process.execPath, [file, which, JSON.stringify(plan)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: 180_000,
  });
  for await (const firstLine of createInterface({ input: child.stdout })) return { child, firstLine };
  throw new Error(`${side} ${which} ended without a word`);
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
