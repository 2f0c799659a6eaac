/** What every Node process of the road shares: exit codes, environment reading, logging, signals. */
export * from './environment.ts';
export * from './exit-codes.ts';
export * from './log.ts';
export * from './run-main.ts';
export * from './shipping.ts';
export * from './signals.ts';
