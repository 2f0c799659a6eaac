import {
  filesKeptUntil,
  mayHaveResult,
  mayStoreResult,
  noteResult,
  payloadOf,
  storeResult,
} from './attempts/tickets.ts';
import { actOnJobs } from './commands/act-on-jobs.ts';
import { cancel } from './commands/cancel.ts';
import { cordon } from './commands/cordon.ts';
import { endTokens } from './commands/end-tokens.ts';
import { limits, tellLimits } from './commands/limits.ts';
import { leaveListener, listen, nextSettled } from './commands/listen.ts';
import { purge } from './commands/purge.ts';
import { request } from './commands/request.ts';
import { retry } from './commands/retry.ts';
import { stayed } from './commands/stayed.ts';
import { submitAndListen } from './commands/submit.ts';
import { outputOf, takeOutput } from './commands/take-output.ts';
import { usage } from './commands/usage.ts';
import { follow, get, wait } from './commands/wait.ts';
import { ledger } from './events/recent-ledger.ts';
import type { Core } from './state/state.ts';
import { batchSlots } from './views/batch-slots.ts';
import { contents } from './views/contents.ts';
import { hasSession, poolJobs, sessions, status } from './views/fleet-views.ts';
import { list } from './views/list.ts';
import { ownerOf } from './views/owner-of.ts';
import { poolNow } from './views/pool-now.ts';
import { metrics, share } from './views/share.ts';
import { sharing } from './views/sharing.ts';
import { webhookBody } from './views/webhook-body.ts';
import { waitingLines } from './waiting/admission.ts';
import { awaitsStart, hearStarts } from './waiting/starts.ts';
import { waitingJob } from './waiting/stored-job.ts';

/*
 * What can be asked of a queue, by the kind of call. Each is a function of the core and its own arguments, with its
 * documentation; `Queue` calls them by name. Those that are offered the object hands on as they are: it makes itself a
 * method of each, and contract.ts is their type.
 */

/** Offered, and done with the next commit. */
export const OFFERED_COMMANDS = {
  actOnJobs,
  cancel,
  endTokens,
  purge,
  retry,
  stayed,
  storeResult,
  takeOutput,
  tellLimits,
  usage,
};

/** Changes the queue, so a dispatch pass follows, in the same commit. */
export const COMMANDS = {
  ...OFFERED_COMMANDS,
  cordon,
  hearStarts,
  leaveListener,
  listen,
  noteResult,
  request,
  submitAndListen,
};

/** Offered, and answered at once. */
export const OFFERED_VIEWS = {
  batchSlots,
  contents,
  filesKeptUntil,
  get,
  hasSession,
  ledger,
  limits,
  list,
  mayStoreResult,
  ownerOf,
  payloadOf,
  poolJobs,
  poolNow,
  sharing,
  status,
  waitingJob,
  waitingLines,
};

/** Reads, and changes nothing. */
export const VIEWS = {
  ...OFFERED_VIEWS,
  awaitsStart,
  mayHaveResult,
  metrics,
  outputOf,
  sessions,
  share,
  webhookBody,
};

/** Answers at once or later, by its last argument. It frees no slot and makes no job ready. */
export const WAITS = {
  follow,
  nextSettled,
  wait,
};

/** Calls by name. */
export type Table = Record<string, (core: Core, ...asked: never[]) => unknown>;

/** What a call of the table is given beside the core. */
export type Asked<Calls extends Table, Name extends keyof Calls> = Calls[Name] extends (
  core: Core,
  ...asked: infer Asked
) => unknown
  ? Asked
  : never;
