import type { Asked, COMMANDS, Table, VIEWS } from '../calls.ts';

/*
 * The calls that the object hands on as they are. It makes itself a method of each; what it does more for has a method
 * in its class.
 */

/** Answered at once. */
export const OFFERED_VIEWS = [
  'batchSlots',
  'contents',
  'filesKeptUntil',
  'get',
  'hasSession',
  'ledger',
  'limits',
  'list',
  'mayStoreResult',
  'ownerOf',
  'payloadOf',
  'poolJobs',
  'poolNow',
  'sharing',
  'status',
  'waitingJob',
  'waitingLines',
] as const satisfies (keyof typeof VIEWS)[];

/** Done with the next commit. */
export const OFFERED_COMMANDS = [
  'actOnJobs',
  'cancel',
  'endTokens',
  'purge',
  'retry',
  'stayed',
  'storeResult',
  'takeOutput',
  'tellLimits',
  'usage',
] as const satisfies (keyof typeof COMMANDS)[];

/** The methods. */
export type Offered = Methods<typeof VIEWS, (typeof OFFERED_VIEWS)[number]> &
  Methods<typeof COMMANDS, (typeof OFFERED_COMMANDS)[number]>;

type Methods<Calls extends Table, Names extends keyof Calls> = {
  [Name in Names]: (...asked: Asked<Calls, Name>) => Promise<ReturnType<Calls[Name]>>;
};
