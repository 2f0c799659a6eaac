/** The exports that every Node process uses: environment, exit codes, signals, logging. */
export * from './environment.ts';
export * from './exit-codes.ts';
export * from './log.ts';
export * from './run-main.ts';
export * from './shipping.ts';
export * from './signals.ts';
