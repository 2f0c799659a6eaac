import { ADAPTERS } from './adapters.ts';
import { BASE_WORKERS } from './base-workers.ts';
import { BATCH_WORK } from './batch-work.ts';
import { CANARIES } from './canaries.ts';
import { Scorers } from './choose.ts';
import { EQUALS } from './equals.ts';
import { PREFIXES } from './prefixes.ts';
import { RETRIES } from './retries.ts';
import { WAKING } from './waking.ts';

/**
 * All rules that decide which worker gets which job, beside free slots, load and the models that are served, in the
 * order in which they prefer workers and rate them.
 */
export const SCORERS = new Scorers([
  EQUALS,
  RETRIES,
  CANARIES,
  WAKING,
  BATCH_WORK,
  BASE_WORKERS,
  ADAPTERS,
  PREFIXES,
]);
