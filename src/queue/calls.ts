import type { Answered, Exposed } from '../durable/calls.ts';
import { closeSilent } from './attempts/connection.ts';
import {
  filesKeptUntil,
  mayHaveResult,
  mayStoreResult,
  noteResult,
  payloadOf,
  storeResult,
} from './attempts/tickets.ts';
import { cordon, endTokens, limits, reportLimits } from './commands/administration.ts';
import { aliases, chosenModel, differs, mainModels, takeAliases } from './commands/aliases.ts';
import { actOnJobs, cancel, eraseContents, purge, retry, takeOutput } from './commands/job-actions.ts';
import { request } from './commands/request.ts';
import { submitAndListen } from './commands/submit.ts';
import { ledger, note, stayed } from './projections/ledger.ts';
import { leaveListener, listen, nextSettled } from './projections/listeners.ts';
import { usage } from './projections/usage-book.ts';
import { follow, get, used, wait } from './projections/waiters.ts';
import { hasSession, metrics, poolJobs, sessions, share, status } from './views/fleet.ts';
import { contents, list, ownerOf, settling, waitingJob, webhookBody } from './views/jobs.ts';
import { batchSlots, poolNow, sharing } from './views/pools.ts';
import { awaitsStart, takeStarts, waitingLines } from './waiting.ts';

/*
 * The calls that a queue answers, by their kind. Each is a function of the core and its own arguments, with its
 * documentation; `Queue` calls them by name. The object turns each exposed call into a method of its own; where the
 * object does more for a call, its class has a method for it, and the rule that this method asks is listed here too.
 */

/** The exposed calls that are done with the next commit. */
export const EXPOSED_COMMANDS = {
  actOnJobs,
  cancel,
  closeSilent,
  endTokens,
  eraseContents,
  note,
  purge,
  retry,
  stayed,
  storeResult,
  takeOutput,
  reportLimits,
  usage,
};

/** The exposed calls that are done at once, since they change nothing that is stored. */
export const EXPOSED_AT_ONCE = {
  leaveListener,
  listen,
};

/** The calls that change the queue, so a dispatch pass follows each in the same commit. */
export const COMMANDS = {
  ...EXPOSED_COMMANDS,
  ...EXPOSED_AT_ONCE,
  cordon,
  takeAliases,
  takeStarts,
  noteResult,
  request,
  submitAndListen,
};

/** The exposed calls that read the queue and are answered at once. */
export const EXPOSED_VIEWS = {
  aliases,
  batchSlots,
  chosenModel,
  contents,
  filesKeptUntil,
  get,
  hasSession,
  ledger,
  limits,
  list,
  mainModels,
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

/** The calls that read the queue and change nothing. */
export const VIEWS = {
  ...EXPOSED_VIEWS,
  awaitsStart,
  differs,
  mayHaveResult,
  metrics,
  sessions,
  settling,
  share,
  webhookBody,
};

/**
 * The exposed calls that are answered at once or later, by their last argument. They free no slot and make no job
 * ready.
 */
export const WAITS = {
  follow,
  nextSettled,
  used,
  wait,
};

/** The methods that the object derives from these tables. */
export type ExposedCalls = Exposed<typeof EXPOSED_COMMANDS & typeof EXPOSED_AT_ONCE & typeof EXPOSED_VIEWS> &
  Answered<typeof WAITS>;
