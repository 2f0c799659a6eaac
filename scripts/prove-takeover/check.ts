import { chatText } from '../../test/soak/engine-text.ts';
import { type Line, type Operation, operationsOf, type SeenJob } from './operations.ts';

/** The model of every engine of a run, so that an answer follows from its request alone. */
export const MODEL = 'tiny';
/** What clients may hear late, of answers on their way over a loaded machine, ms. */
const SLACK_MS = 300;
/** The window of a limit in tokens a minute, less what a client may hear late, ms. */
const WINDOW_MS = 60_000 - 2 * SLACK_MS;

export interface Limits {
  running: number;
  tokensPerMinute: number;
}

/** What the queue says of a job once everything has come to rest. */
export interface FinalJob extends SeenJob {
  /** The steps of its ledger, in order. */
  steps: readonly { step: string; fence: number }[];
}

/** The state once everything has come to rest. */
export interface FinalState {
  /** Every job that some client knows of, by its id; null: the queue does not know it. */
  jobs: ReadonlyMap<string, FinalJob | null>;
  /** The usage of the tokens by which jobs are stored, and of those by which chats are asked. */
  usage: { jobs: { requests: number; output: number }; chats: { requests: number; output: number } };
  /** The entries of the journal that are still there. */
  journal: readonly { seq: number; epoch: number }[];
  /** Tables in which the files of owner and follower differ. */
  differences: readonly string[];
}

/** What was found, by promise; all lists are empty if every promise was kept. */
export type Verdict = Record<(typeof PROMISES)[number], string[]>;

export const PROMISES = [
  'acknowledged jobs that are lost',
  'refused jobs that are there',
  'wrong answers',
  'jobs settled twice',
  'jobs that changed after their end',
  'fences that do not rise',
  'ids given twice',
  'limits exceeded',
  'usage wrong',
  'journal out of order',
  'owner and follower differ',
] as const;

/** Checks what clients saw, and what is there at the end, against what the queue promises. */
export function check(lines: readonly Line[], final: FinalState, limits: Limits): Verdict {
  const operations = operationsOf(lines);
  return {
    'acknowledged jobs that are lost': lostJobs(operations, final),
    'refused jobs that are there': refusedJobs(operations, final),
    'wrong answers': [...wrongJobs(operations, final), ...wrongChats(operations)],
    'jobs settled twice': settledTwice(final),
    'jobs that changed after their end': changedJobs(operations, final),
    'fences that do not rise': [...fencesOfJobs(final), ...fencesOfQueue(operations, final)],
    'ids given twice': idsTwice(operations),
    'limits exceeded': [...tooManyAtOnce(operations, limits), ...tooManyTokens(operations, limits)],
    'usage wrong': [...wrongUsage(operations, final), ...wrongUsageReads(operations)],
    'journal out of order': journalOrder(final),
    'owner and follower differ': [...final.differences],
  };
}

const ENDS = ['settled', 'cancelled', 'expired'];
const FINAL_STATES = ['succeeded', 'failed', 'cancelled', 'expired'];

/** Returns the id of the job that a submission made, as far as its client knows. */
function idOf({ call, end }: Operation): string | null {
  if (call.kind !== 'submit') return null;
  return call.id ?? (end?.type === 'ok' ? end.id! : null);
}

/** Each acknowledged job came out: with its answer, or cancelled if somebody asked for that. */
function lostJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const cancelled = new Set(
    operations.map(({ call }) => (call.kind === 'cancel' ? call.id : null)).filter((id) => id !== null),
  );
  const lost: string[] = [];
  for (const operation of operations) {
    const { call, end } = operation;
    if (call.kind !== 'submit' || end?.type !== 'ok') continue;
    const id = idOf(operation)!;
    const job = jobs.get(id);
    const isRight = job?.state === 'succeeded' || (job?.state === 'cancelled' && cancelled.has(id));
    if (!isRight)
      lost.push(`${id}, acknowledged at ${ms(end.at)}: ${job?.state ?? 'the queue does not know it'}`);
  }
  for (const { call, from, end } of operations) {
    if (call.kind !== 'read' && call.kind !== 'cancel') continue;
    if (end?.type === 'fail' && end.why.startsWith('404'))
      lost.push(`${call.id}, acknowledged, was not known at ${ms(from)}`);
    if (call.kind !== 'cancel' || end?.type !== 'ok') continue;
    const state = jobs.get(call.id)?.state;
    if (state !== end.job!.state)
      lost.push(`the cancel of ${call.id} was answered ${end.job!.state}: ${state}`);
  }
  return lost;
}

/** A job is not there if every submission of it was refused. */
function refusedJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const refused = new Map<string, boolean>();
  for (const { call, end } of operations) {
    if (call.kind !== 'submit' || call.id === null) continue;
    refused.set(call.id, (refused.get(call.id) ?? true) && end?.type === 'fail');
  }
  return [...refused].filter(([id, isRefused]) => isRefused && jobs.get(id)).map(([id]) => id);
}

function wrongJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const wrong = new Set<string>();
  for (const operation of operations) {
    const { call } = operation;
    const id = idOf(operation);
    if (call.kind !== 'submit' || id === null) continue;
    const job = jobs.get(id);
    if (job?.state !== 'succeeded') continue;
    const expected = textOf(call.prompt, call.tokens);
    if (job.text !== expected) wrong.add(`${id}: "${cut(job.text)}" in place of "${cut(expected)}"`);
  }
  return [...wrong];
}

/** A whole answer is the engine's; one that broke off is its beginning. */
function wrongChats(operations: readonly Operation[]): string[] {
  const wrong: string[] = [];
  for (const { op, call, end } of operations) {
    if (call.kind !== 'chat' || !end || !('chat' in end) || !end.chat) continue;
    const { text } = end.chat;
    const expected = textOf(call.prompt, call.tokens);
    const isRight = end.type === 'ok' ? text === expected : expected.startsWith(text);
    if (!isRight) wrong.push(`chat ${op} (${end.type}): "${cut(text)}" in place of "${cut(expected)}"`);
  }
  return wrong;
}

function settledTwice({ jobs }: FinalState): string[] {
  return [...jobs].flatMap(([id, job]) => {
    const ends = job?.steps.filter(({ step }) => ENDS.includes(step)) ?? [];
    const isRight = !job || (ends.length === 1) === FINAL_STATES.includes(job.state);
    return isRight && ends.length < 2
      ? []
      : [`${id}: ${ends.map(({ step, fence }) => `${step} (${fence})`)}`];
  });
}

/** What a client has read of a job that is over is what everybody reads later. */
function changedJobs(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const changed: string[] = [];
  for (const [id, reads] of readsByJob(operations)) {
    const over = reads.find(({ job }) => FINAL_STATES.includes(job.state));
    const later = reads.filter(({ from }) => over && from > over.at).map(({ job }) => job);
    const last = jobs.get(id);
    if (last) later.push(last);
    const other = over && later.find((job) => outcomeOf(job) !== outcomeOf(over.job));
    if (other) changed.push(`${id}: ${outcomeOf(over.job)}, later ${outcomeOf(other)}`);
  }
  return changed;
}

function outcomeOf({ state, fence, text, settledAt }: SeenJob): string {
  return `${state} with fence ${fence} at ${settledAt}: "${cut(text)}"`;
}

/** Of one job: each attempt has a higher fence than the one before, and its end that of its last attempt. */
function fencesOfJobs({ jobs }: FinalState): string[] {
  const wrong: string[] = [];
  const owners = new Map<number, string>();
  for (const [id, job] of jobs) {
    let last = 0;
    for (const { step, fence } of job?.steps ?? []) {
      if (step === 'dispatched') {
        if (fence <= last) wrong.push(`${id}: fence ${fence} was given after ${last}`);
        if (owners.has(fence)) wrong.push(`fence ${fence} was given to ${owners.get(fence)} and ${id}`);
        owners.set(fence, id);
        last = fence;
      } else if (step === 'settled' && fence !== last) {
        wrong.push(`${id}: settled by fence ${fence}, while the newest attempt had ${last}`);
      }
    }
  }
  return wrong;
}

/** Of the queue: a fence given later, to whichever job, is higher than any that a client has seen before. */
function fencesOfQueue(operations: readonly Operation[], { jobs }: FinalState): string[] {
  const wrong: string[] = [];
  const seen = operations
    .flatMap(({ call, end }) =>
      call.kind === 'read' && end?.type === 'ok' && end.job ? [{ at: end.at, fence: end.job.fence }] : [],
    )
    .sort((a, b) => a.at - b.at);
  const firstSubmits = new Map<string, number>();
  for (const operation of operations) {
    const id = idOf(operation);
    if (id !== null && !firstSubmits.has(id)) firstSubmits.set(id, operation.from);
  }
  let highest = 0;
  let next = 0;
  for (const [id, from] of [...firstSubmits].sort(([, a], [, b]) => a - b)) {
    for (; next < seen.length && seen[next]!.at < from; next += 1)
      highest = Math.max(highest, seen[next]!.fence);
    const first = jobs.get(id)?.steps.find(({ step }) => step === 'dispatched');
    if (first && first.fence <= highest)
      wrong.push(`${id}, submitted at ${ms(from)}: fence ${first.fence}, after ${highest} had been seen`);
  }
  for (const [id, reads] of readsByJob(operations)) {
    const falling = reads.find(({ from, job }) =>
      reads.some((earlier) => earlier.at < from && earlier.job.fence > job.fence),
    );
    if (falling) wrong.push(`${id}: fence ${falling.job.fence} was read after a higher one`);
  }
  return wrong;
}

function idsTwice(operations: readonly Operation[]): string[] {
  const given = operations.flatMap(({ call, end }) =>
    call.kind === 'submit' && call.id === null && end?.type === 'ok' ? [end.id!] : [],
  );
  const seen = new Set<string>();
  return given.filter((id) => seen.size === seen.add(id).size);
}

/** Answers whose tokens come at the same time run at the same time. */
function tooManyAtOnce(operations: readonly Operation[], { running }: Limits): string[] {
  const changes = limitedChats(operations)
    .map(({ chat }) => ({ from: chat.firstAt, to: chat.lastAt - SLACK_MS }))
    .filter(({ from, to }) => to > from)
    .flatMap(({ from, to }) => [
      { at: from, by: 1 },
      { at: to, by: -1 },
    ])
    .sort((a, b) => a.at - b.at || a.by - b.by);
  let count = 0;
  const exceeded: string[] = [];
  for (const { at, by } of changes) {
    count += by;
    if (by > 0 && count > running) exceeded.push(`${count} ran at ${ms(at)}, ${running} may`);
  }
  return exceeded;
}

/** Answers that begin and end within a minute have used all of their tokens within it. */
function tooManyTokens(operations: readonly Operation[], { tokensPerMinute }: Limits): string[] {
  const whole = limitedChats(operations).filter(({ isWhole }) => isWhole);
  const exceeded: string[] = [];
  for (const { from } of whole) {
    const within = whole.filter((other) => other.from >= from && other.chat.lastAt <= from + WINDOW_MS);
    const sum = within.reduce((total, { chat }) => total + chat.totalTokens, 0);
    if (sum > tokensPerMinute)
      exceeded.push(`${sum} tokens in the minute from ${ms(from)} on, ${tokensPerMinute} may be used`);
  }
  return exceeded;
}

function limitedChats(operations: readonly Operation[]) {
  return operations.flatMap(({ call, from, end }) =>
    call.kind === 'chat' && call.token === 'limited' && end && 'chat' in end && end.chat
      ? [{ from, chat: end.chat, isWhole: end.type === 'ok' }]
      : [],
  );
}

/** The usage of stored jobs is that of the jobs; of chats, at least of those that were whole. */
function wrongUsage(operations: readonly Operation[], { jobs, usage }: FinalState): string[] {
  const wrong: string[] = [];
  const lengths = new Map<string, number>();
  for (const operation of operations) {
    const id = idOf(operation);
    if (id !== null && operation.call.kind === 'submit') lengths.set(id, operation.call.tokens);
  }
  let least = 0;
  let most = 0;
  let ended = 0;
  for (const [id, job] of jobs) {
    if (!job || !FINAL_STATES.includes(job.state)) continue;
    ended += 1;
    const length = lengths.get(id) ?? 0;
    if (job.state === 'succeeded') least += length;
    most += length;
  }
  // A submission without an answer and without an id of its own may have made a job that nobody knows.
  const nameless = operations.filter(
    ({ call, end }) =>
      call.kind === 'submit' && call.id === null && end?.type !== 'ok' && end?.type !== 'fail',
  );
  const unseen = nameless.reduce((sum, { call }) => sum + (call.kind === 'submit' ? call.tokens : 0), 0);
  demand('requests of stored jobs', usage.jobs.requests, ended, ended + nameless.length);
  demand('tokens of stored jobs', usage.jobs.output, least, most + unseen);

  const chats = operations.filter(({ call }) => call.kind === 'chat');
  const whole = chats.filter(({ end }) => end?.type === 'ok');
  const tokensOf = (list: readonly Operation[]) =>
    list.reduce((sum, { call }) => sum + (call.kind === 'chat' ? call.tokens : 0), 0);
  demand('requests of chats', usage.chats.requests, whole.length, chats.length);
  demand('tokens of chats', usage.chats.output, tokensOf(whole), tokensOf(chats));
  return wrong;

  function demand(what: string, is: number, from: number, to: number): void {
    if (is < from || is > to) wrong.push(`${what}: ${is}, ${from === to ? from : `${from} to ${to}`} ended`);
  }
}

/** What has ended when the usage is asked for is in it. */
function wrongUsageReads(operations: readonly Operation[]): string[] {
  const ends = [...readsByJob(operations).values()]
    .map((reads) => reads.find(({ job }) => FINAL_STATES.includes(job.state))?.at)
    .filter((at) => at !== undefined)
    .sort((a, b) => a - b);
  let next = 0;
  return operations
    .filter(({ call, end }) => call.kind === 'usage' && end?.type === 'ok')
    .sort((a, b) => a.from - b.from)
    .flatMap(({ from, end }) => {
      while (next < ends.length && ends[next]! < from) next += 1;
      const { requests } = (end as { usage: { requests: number } }).usage;
      return requests < next
        ? [`${requests} requests at ${ms(from)}, when ${next} jobs were seen ended`]
        : [];
    });
}

function journalOrder({ journal }: FinalState): string[] {
  return journal.flatMap(({ seq, epoch }, at) => {
    const before = journal[at - 1];
    if (!before || (seq === before.seq + 1 && epoch >= before.epoch)) return [];
    return [`entry ${seq} of epoch ${epoch} follows entry ${before.seq} of epoch ${before.epoch}`];
  });
}

/** The reads and cancels of each job that were answered, in the order of their answers. */
function readsByJob(
  operations: readonly Operation[],
): Map<string, { from: number; at: number; job: SeenJob }[]> {
  const reads = new Map<string, { from: number; at: number; job: SeenJob }[]>();
  for (const { call, from, end } of operations) {
    if ((call.kind !== 'read' && call.kind !== 'cancel') || end?.type !== 'ok' || !end.job) continue;
    const list = reads.get(call.id) ?? [];
    list.push({ from, at: end.at, job: end.job });
    reads.set(call.id, list);
  }
  for (const list of reads.values()) list.sort((a, b) => a.at - b.at);
  return reads;
}

function textOf(prompt: string, tokens: number): string {
  return chatText([{ role: 'user', content: prompt }], tokens, MODEL);
}

function cut(text: string | null): string {
  return text === null ? '' : text.length > 60 ? `${text.slice(0, 60)}… (${text.length})` : text;
}

function ms(at: number): string {
  return `${(at / 1000).toFixed(1)} s`;
}
